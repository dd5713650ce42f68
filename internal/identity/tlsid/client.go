package tlsid

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
)

// ErrWrongCA means that the server is not the broker of the token. The wrapped text says what it presented.
var ErrWrongCA = errors.New("server is not the broker that made this token")

// Client is the certificate of a member or an operator. It is safe for concurrent use.
type Client struct {
	roots *x509.CertPool
	now   func() time.Time
	// show returns the certificate to present now: a replaced one, or one read from files.
	show     func() (*tls.Certificate, error)
	replaced atomic.Pointer[tls.Certificate]
}

// NewClient makes a Client of a key, its certificate and the broker's CA, all as PEM.
func NewClient(keyPEM, certPEM, caPEM []byte, now func() time.Time) (*Client, error) {
	roots, err := rootPool(caPEM)
	if err != nil {
		return nil, err
	}
	c := &Client{roots: roots, now: now}
	c.show = func() (*tls.Certificate, error) { return c.replaced.Load(), nil }
	return c, c.Replace(keyPEM, certPEM)
}

// Replace presents another certificate from the next connection on. A client of [OpenClient] reads its files
// instead. Open connections keep the old one: close idle ones, because the broker refuses requests on them
// once the old certificate expires.
func (c *Client) Replace(keyPEM, certPEM []byte) error {
	fresh, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	c.replaced.Store(&fresh)
	return nil
}

// Certificate returns the current certificate. [RenewAt] says when to renew it.
func (c *Client) Certificate() (*x509.Certificate, error) {
	current, err := c.show()
	if err != nil {
		return nil, err
	}
	return current.Leaf, nil
}

// Config connects to the broker under any name in its certificate.
func (c *Client) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       c.now,
		RootCAs:    c.roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.show()
		},
	}
}

// AnonymousConfig connects like [Client.Config] but presents no certificate, to renew one that may have
// expired.
func (c *Client) AnonymousConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Time: c.now, RootCAs: c.roots}
}

// Federation returns the broker's federation, from the certificate. Error: [ErrIdentity].
func (c *Client) Federation() (string, error) {
	cert, err := c.Certificate()
	if err != nil {
		return "", err
	}
	if len(cert.URIs) != 1 {
		return "", fmt.Errorf("%w: %d URI names, must be one", ErrIdentity, len(cert.URIs))
	}
	return cert.URIs[0].Host, nil
}

// JoinConfig connects without a certificate to the broker at host (a name or an IP address, no port), of
// which only the CA's pin is known. The handshake with any other server fails with [ErrWrongCA]. It fails
// with an error of x509 if the certificate is for another host, or a clock is wrong.
func JoinConfig(host string, pin identity.Fingerprint, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Time:               now,
		ServerName:         host,
		InsecureSkipVerify: true, // not skipped: VerifyConnection verifies, with the pinned CA as the only root
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPinned(state.PeerCertificates, host, pin, now())
		},
	}
}

func verifyPinned(shown []*x509.Certificate, host string, pin identity.Fingerprint, now time.Time) error {
	roots := x509.NewCertPool()
	for _, cert := range shown[1:] {
		if keyOf(cert) == pin {
			roots.AddCert(cert)
		}
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		DNSName:     host,
		Roots:       roots,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
		return fmt.Errorf("%w: it shows no CA with the key %s", ErrWrongCA, pin)
	}
	if err != nil {
		return fmt.Errorf("broker at %s: %w", host, err)
	}
	return nil
}
