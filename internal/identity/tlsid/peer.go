// Package tlsid authenticates connections: it has the certificates, their issuers, and the TLS
// configurations of broker and member.
//
// The broker opens its [Authority]: its own CA ([Open]), or certificates that the operator provides
// ([OpenProvided]). It serves with [Authority.ServerConfig] and calls [Authority.Peer] for each request. A
// member makes a key ([NewKey]) and a request ([NewCSR]), gets a certificate of [Authority.SignMember], and
// connects with [Client.Config]. To join, it connects without a certificate, with [JoinConfig].
//
// A certificate contains one name, a URI: bourse://FEDERATION/cluster/ID for a member,
// bourse://FEDERATION/operator/NAME for an operator, bourse://FEDERATION/broker for the broker itself. Its
// subject is not read, except after [Authority.AdmitCommonNames]. TLS is 1.3, keys are ECDSA P-256.
package tlsid

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"k8s.io/apimachinery/pkg/util/validation"
)

const scheme = "bourse"

// Role determines which routes a peer may use.
type Role string

// The roles in certificates.
const (
	RoleCluster  Role = "cluster"
	RoleOperator Role = "operator"
	RoleBroker   Role = "broker"
	// RoleLegacy is the role of a cluster that only a subject names: see [Authority.AdmitCommonNames].
	RoleLegacy Role = "legacy"
)

// Peer is the identity in a certificate. It does not imply membership, which can end before the certificate
// does.
type Peer struct {
	Role Role
	// Name is the Liqo cluster ID of a cluster, or the name of an operator.
	Name string
	// Key is the fingerprint of the certificate's public key (its SubjectPublicKeyInfo).
	Key identity.Fingerprint
	// Issued is when the certificate was issued, in seconds: its NotBefore without our backdating.
	Issued time.Time
	// Ours reports whether this broker's own CA issued the certificate.
	Ours bool
}

// Errors of a caller's certificate. The wrapped text says more.
var (
	ErrNoCertificate = errors.New("no client certificate: join first (bourse agent --join TOKEN)")
	ErrIdentity      = errors.New("certificate does not identify a peer of this federation")
	ErrExpired       = errors.New("certificate is not valid now: check both clocks, or join again with a new token")
)

// ParsePeer reads the name in a client certificate whose chain is verified. It accepts only certificates of
// this federation that are for clients, valid at now, and have exactly one URI in our own spelling.
// Errors: [ErrIdentity], [ErrExpired].
func ParsePeer(cert *x509.Certificate, federation string, now time.Time) (Peer, error) {
	if cert.IsCA || !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return Peer{}, fmt.Errorf("%w: not a client certificate", ErrIdentity)
	}
	role, name, err := parseName(cert, federation)
	if err != nil {
		return Peer{}, err
	}
	if role == RoleBroker {
		return Peer{}, fmt.Errorf("%w: a broker is not a client", ErrIdentity)
	}
	// An idle connection can outlive the certificate that opened it.
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return Peer{}, fmt.Errorf("%w: %s %s, from %s to %s", ErrExpired, role, name,
			cert.NotBefore.Format(time.RFC3339), cert.NotAfter.Format(time.RFC3339))
	}
	return Peer{Role: role, Name: name, Key: keyOf(cert)}, nil
}

// Peer returns the identity of the peer of a connection of [Authority.ServerConfig]. Call it for each
// request, because a certificate may expire while a connection is open.
// Errors: [ErrNoCertificate], [ErrIdentity], [ErrExpired].
func (a *Authority) Peer(state *tls.ConnectionState) (Peer, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Peer{}, ErrNoCertificate
	}
	cert, federations := state.VerifiedChains[0][0], a.issued(state.VerifiedChains)
	parse := func() (Peer, error) { return ParsePeer(cert, a.federation, a.now()) }
	if a.commonNames && (len(cert.URIs) == 0 || !federations) {
		parse = func() (Peer, error) { return parseCommonName(cert, a.now()) }
	}
	peer, err := parse()
	if err != nil {
		return Peer{}, err
	}
	peer.Issued, peer.Ours = cert.NotBefore, federations && a.key != nil
	if peer.Ours {
		peer.Issued = IssuedAt(cert)
	}
	return peer, nil
}

// Member returns the cluster at the other end of such a connection; "" if it has no valid certificate of a
// member.
func (a *Authority) Member(state *tls.ConnectionState) string {
	if peer, err := a.Peer(state); err == nil && peer.Role == RoleCluster {
		return peer.Name
	}
	return ""
}

// Now returns the time that decides whether certificates are valid.
func (a *Authority) Now() time.Time { return a.now() }

func parseName(cert *x509.Certificate, federation string) (Role, string, error) {
	if len(cert.URIs) != 1 {
		return "", "", fmt.Errorf("%w: %d URI names, must be one", ErrIdentity, len(cert.URIs))
	}
	found := cert.URIs[0]
	first, name, _ := strings.Cut(strings.TrimPrefix(found.Path, "/"), "/")
	role := Role(first)
	switch role {
	case RoleCluster, RoleOperator:
		if err := checkLabel(string(role), name); err != nil {
			return "", "", fmt.Errorf("%w: %w", ErrIdentity, err)
		}
	case RoleBroker:
		name = ""
	default:
		return "", "", fmt.Errorf("%w: role %.32q", ErrIdentity, role)
	}
	// This rejects ports, user names, queries, escapes and other schemes.
	if want := nameURI(federation, role, name); found.String() != want.String() {
		return "", "", fmt.Errorf("%w: named %.200q, must be %s", ErrIdentity, found, want)
	}
	return role, name, nil
}

func nameURI(federation string, role Role, name string) *url.URL {
	path := "/" + string(role)
	if name != "" {
		path += "/" + name
	}
	return &url.URL{Scheme: scheme, Host: federation, Path: path}
}

func checkLabel(what, label string) error {
	if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
		return fmt.Errorf("%s %.64q: %s", what, label, strings.Join(problems, "; "))
	}
	return nil
}

func keyOf(cert *x509.Certificate) identity.Fingerprint {
	return identity.FingerprintOf(cert.RawSubjectPublicKeyInfo)
}
