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

// How long certificates live. Each is renewed at half of it.
const (
	caLife       = 10 * 365 * 24 * time.Hour
	operatorLife = 365 * 24 * time.Hour // by hand, hence long: see [Authority.WriteOperator]
	leafLife     = 30 * 24 * time.Hour
	// backdate lets a peer whose clock is late believe a certificate that was just made.
	backdate = 5 * time.Minute
)

// ErrCannotIssue says that this broker has no CA key, because its certificates are provided.
var ErrCannotIssue = errors.New("this broker cannot issue certificates (--tls-cert-dir): ask its operator for tls.crt, tls.key and ca.crt, and start the agent with --tls-cert-dir")

// Authority is the broker's side of TLS: whom it believes, what it shows, and, with a CA of its own, what
// it issues. Safe for concurrent use.
type Authority struct {
	federation string
	caPEM      []byte
	roots      *x509.CertPool
	now        func() time.Time
	// clients are the CAs whose client certificates are verified: the federation's, and those of
	// [Authority.AdmitCommonNames].
	clients     *x509.CertPool
	commonNames bool
	// serving returns the certificate to show now.
	serving func() (*tls.Certificate, error)
	// ca and key are nil where certificates are provided.
	ca  *x509.Certificate
	key crypto.Signer
}

// Federation is the trust domain: the host in the names of all members.
func (a *Authority) Federation() string { return a.federation }

// CAPEM is the CA certificate that members verify the broker with. It is public.
func (a *Authority) CAPEM() []byte { return a.caPEM }

// Pin is the fingerprint of the CA's public key, for join tokens. Its error is [ErrCannotIssue]: without a
// CA of its own a broker has no use for tokens.
func (a *Authority) Pin() (identity.Fingerprint, error) {
	if a.ca == nil {
		return identity.Fingerprint{}, ErrCannotIssue
	}
	return keyOf(a.ca), nil
}

// ServerConfig is the broker's listener. A client certificate is verified if one is given, since a cluster
// that joins has none yet; every other route must ask [Authority.Peer].
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

// issue signs a certificate for public, valid for life from now, but not longer than the CA. It
// begins now, unless the template says when.
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
