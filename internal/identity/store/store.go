// Package store is where an agent keeps what it must not lose: its two private keys and what the broker
// gave it. In a cluster that is a Secret ([InSecret]), else a directory ([InDir]).
package store

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

var (
	// ErrNotFound says that nothing was saved yet.
	ErrNotFound = errors.New("no identity is stored")
	// ErrConflict says that the identity changed since it was loaded: load it again, and prefer
	// what is there.
	ErrConflict = errors.New("the stored identity was changed by another agent of this cluster")
)

// Identity is an agent's. An agent that is about to join has its keys only, and saves them before it asks:
// a token is good for one pair of keys, and the answer may be lost. It prints without its content.
type Identity struct {
	// TLSKeyPEM is the key for connections; CertPEM its certificate, which carries the cluster ID.
	TLSKeyPEM, CertPEM []byte
	// CAPEM verifies the broker.
	CAPEM []byte
	// ClusterKeyPEM is what peers pin: if it is lost, every peer stops until its admin trusts a new one.
	ClusterKeyPEM []byte
	// Rotations are the signed documents by which the cluster's former keys named their successors,
	// oldest first.
	Rotations []string
	BrokerURL string
	// Brokers are the cluster's identities at brokers besides that, by the name that people gave each.
	Brokers map[string]AtBroker

	// revision is what a Secret had when this was loaded; empty before it exists.
	revision string
}

// AtBroker is what a cluster has of one broker more.
type AtBroker struct {
	TLSKeyPEM []byte `json:"tls.key"`
	CertPEM   []byte `json:"tls.crt,omitempty"`
	CAPEM     []byte `json:"ca.crt,omitempty"`
	URL       string `json:"broker-url"`
}

// Store keeps one Identity.
type Store interface {
	// Load returns what was saved last, or [ErrNotFound].
	Load(ctx context.Context) (Identity, error)
	// Save replaces what [Store.Load] returned, all of it or nothing, and lets the same value be
	// saved again. It returns [ErrConflict] if somebody else saved in between (a directory has one
	// user, and never does).
	Save(ctx context.Context, identity *Identity) error
}

// String does not show the keys.
func (i Identity) String() string { return "identity for " + i.BrokerURL }

// The names under which both implementations keep the parts.
const (
	tlsKeyName     = "tls.key"
	certName       = "tls.crt"
	caName         = "ca.crt"
	clusterKeyName = "cluster.key"
	rotationsName  = "cluster.rotations"
	brokerURLName  = "broker-url"
	brokersName    = "brokers"
)

func (i Identity) parts() map[string][]byte {
	brokers := []byte(nil) // JSON; it has only text and bytes, which can be encoded
	if len(i.Brokers) > 0 {
		brokers, _ = json.Marshal(i.Brokers)
	}
	return map[string][]byte{
		brokersName:    brokers,
		tlsKeyName:     i.TLSKeyPEM,
		certName:       i.CertPEM,
		caName:         i.CAPEM,
		clusterKeyName: i.ClusterKeyPEM,
		rotationsName:  []byte(strings.Join(i.Rotations, "\n")),
		brokerURLName:  []byte(i.BrokerURL),
	}
}

func fromParts(parts map[string][]byte) Identity {
	var brokers map[string]AtBroker
	if json.Unmarshal(parts[brokersName], &brokers) != nil { // none, or somebody else's: they can be joined anew
		brokers = nil
	}
	return Identity{
		Brokers:       brokers,
		TLSKeyPEM:     parts[tlsKeyName],
		CertPEM:       parts[certName],
		CAPEM:         parts[caName],
		ClusterKeyPEM: parts[clusterKeyName],
		Rotations:     strings.Fields(string(parts[rotationsName])),
		BrokerURL:     string(parts[brokerURLName]),
	}
}
