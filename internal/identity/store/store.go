// Package store stores the state that an agent must not lose: its two private keys and what the broker gave
// it. In a cluster that is a Secret ([InSecret]), else a directory ([InDir]).
package store

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

var (
	// ErrNotFound means that nothing has been saved yet.
	ErrNotFound = errors.New("no identity is stored")
	// ErrConflict means that the identity changed since it was loaded. Load it again, and use that.
	ErrConflict = errors.New("the stored identity was changed by another agent of this cluster")
)

// Identity is an agent's identity. Before it joins, an agent saves its keys alone: a token admits one pair of
// keys, and the answer may be lost. Identity prints without its content.
type Identity struct {
	// TLSKeyPEM is the key for connections. CertPEM is its certificate, which contains the cluster ID.
	TLSKeyPEM, CertPEM []byte
	// CAPEM verifies the broker.
	CAPEM []byte
	// ClusterKeyPEM is the key that peers pin. If it is lost, each peer's admin must trust a new one.
	ClusterKeyPEM []byte
	// Rotations are the signed documents in which the cluster's former keys named their successors, oldest
	// first.
	Rotations []string
	BrokerURL string
	// Home is the UID of namespace kube-system of the cluster that has this identity. Empty: nobody looked yet.
	Home string
	// Brokers are the cluster's identities at further brokers, by the broker's local name.
	Brokers map[string]AtBroker

	// revision is the Secret's revision when it was loaded; empty before it exists.
	revision string
}

// AtBroker is a cluster's identity at one further broker.
type AtBroker struct {
	TLSKeyPEM []byte `json:"tls.key"`
	CertPEM   []byte `json:"tls.crt,omitempty"`
	CAPEM     []byte `json:"ca.crt,omitempty"`
	URL       string `json:"broker-url"`
}

// Store stores one Identity.
type Store interface {
	// Load returns the last saved identity, or [ErrNotFound].
	Load(ctx context.Context) (Identity, error)
	// Save atomically replaces the result of [Store.Load]. The same value may be saved again. It
	// returns [ErrConflict] if another process saved in between. In a directory that cannot happen,
	// because it has one user.
	Save(ctx context.Context, identity *Identity) error
}

// String does not contain the keys.
func (i Identity) String() string { return "identity for " + i.BrokerURL }

// The names of the parts, in both implementations.
const (
	tlsKeyName     = "tls.key"
	certName       = "tls.crt"
	caName         = "ca.crt"
	clusterKeyName = "cluster.key"
	rotationsName  = "cluster.rotations"
	brokerURLName  = "broker-url"
	brokersName    = "brokers"
	homeName       = "kube-system-uid"
)

func (i Identity) parts() map[string][]byte {
	brokers := []byte(nil) // JSON; it has only text and bytes, which can be encoded
	if len(i.Brokers) > 0 {
		brokers, _ = json.Marshal(i.Brokers)
	}
	return map[string][]byte{
		brokersName:    brokers,
		homeName:       []byte(i.Home),
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
	if json.Unmarshal(parts[brokersName], &brokers) != nil { // none, or foreign content: join them again
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
		Home:          string(parts[homeName]),
	}
}
