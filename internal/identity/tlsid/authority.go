package tlsid

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
)

// Lifetimes of certificates. Each is renewed at half of its lifetime.
const (
	caLife       = 10 * 365 * 24 * time.Hour
	operatorLife = 365 * 24 * time.Hour // renewed by hand: see [Authority.WriteOperator]
	leafLife     = 30 * 24 * time.Hour
	// backdate makes a new certificate valid for peers whose clock is behind.
	backdate = 5 * time.Minute
)

// ErrCannotIssue means that this broker has no CA key, because its certificates are provided.
var ErrCannotIssue = errors.New("this broker cannot issue certificates (--tls-cert-dir): ask its operator for " +
	"tls.crt, tls.key and ca.crt, and start the agent with --broker-cert-path and --broker-url")

// Authority is the broker's side of TLS: which certificates it trusts, which one it presents and, with its
// own CA, which ones it issues. It is safe for concurrent use.
type Authority struct {
	federation string
	caPEM      []byte
	roots      *x509.CertPool
	now        func() time.Time
	// clients are the CAs whose client certificates are verified: the federation's, and those of
	// [Authority.AdmitCommonNames].
	clients     *x509.CertPool
	commonNames bool
	// serving returns the certificate to present now.
	serving func() (*tls.Certificate, error)
	// ca and key are nil if certificates are provided.
	ca  *x509.Certificate
	key crypto.Signer
}

// Federation returns the trust domain: the host in the names of all members.
func (a *Authority) Federation() string { return a.federation }

// CAPEM returns the CA certificate with which members verify the broker.
func (a *Authority) CAPEM() []byte { return a.caPEM }

// Pin returns the fingerprint of the CA's public key, for join tokens. Error: [ErrCannotIssue], because a
// broker without its own CA has no join tokens.
func (a *Authority) Pin() (identity.Fingerprint, error) {
	if a.ca == nil {
		return identity.Fingerprint{}, ErrCannotIssue
	}
	return keyOf(a.ca), nil
}

// ServerConfig is the configuration of the broker's listener. It verifies a client certificate if there is
// one, because a joining cluster has none yet. All other routes must call [Authority.Peer].
func (a *Authority) ServerConfig() *tls.Config {
	if a.clients == nil {
		a.clients = a.roots.Clone()
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		Time:           a.now,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      a.clients,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.serving() },
	}
}

// issue signs a certificate for public. It is valid from now, or from the template's time, for life, but
// not longer than the CA.
func (a *Authority) issue(template *x509.Certificate, public crypto.PublicKey, life time.Duration) ([]byte, error) {
	if a.key == nil {
		return nil, ErrCannotIssue
	}
	now := a.now()
	if template.NotBefore.IsZero() {
		template.NotBefore = now.Add(-backdate)
	}
	template.NotAfter = now.Add(life)
	if template.NotAfter.After(a.ca.NotAfter) {
		template.NotAfter = a.ca.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true // not a CA
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return der, nil
}
