package tlsid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
)

// maxCSR is the largest size of a request, in bytes. One for a P-256 key without names has about 200.
const maxCSR = 4 << 10

// ErrBadCSR means that a certificate request is invalid. The wrapped text says why.
var ErrBadCSR = errors.New("certificate request is not acceptable")

// NewCSR makes a certificate request (DER) for a key of [NewKey]. It contains no name, because the broker
// decides on the name of the certificate.
func NewCSR(keyPEM []byte) ([]byte, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return csr, nil
}

// CSRKey checks a certificate request with its signature and returns the fingerprint of its key. The sender
// holds that key, or repeats a request of its holder. Error: [ErrBadCSR].
func CSRKey(csr []byte) (identity.Fingerprint, error) {
	request, err := parseCSR(csr)
	if err != nil {
		return identity.Fingerprint{}, err
	}
	return identity.FingerprintOf(request.RawSubjectPublicKeyInfo), nil
}

func parseCSR(csr []byte) (*x509.CertificateRequest, error) {
	if len(csr) > maxCSR {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBadCSR, len(csr), maxCSR)
	}
	request, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCSR, err)
	}
	if key, ok := request.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: its key must be ECDSA P-256", ErrBadCSR)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: it is not signed by its own key", ErrBadCSR)
	}
	return request, nil
}

// SignMember issues the certificate (PEM) of a cluster: for clients, for 30 days, for the key in the request
// and the given name. It ignores all else in the request. The caller must check that the cluster may have
// this name. Errors: [ErrBadCSR], [ErrCannotIssue], a bad cluster ID.
func (a *Authority) SignMember(csr []byte, clusterID string) ([]byte, error) {
	if err := checkLabel("cluster ID", clusterID); err != nil {
		return nil, err
	}
	request, err := parseCSR(csr)
	if err != nil {
		return nil, err
	}
	der, err := a.issue(a.clientTemplate(RoleCluster, clusterID), request.PublicKey, leafLife)
	if err != nil {
		return nil, err
	}
	return certPEM(der), nil
}

func (a *Authority) clientTemplate(role Role, name string) *x509.Certificate {
	return &x509.Certificate{
		URIs:        []*url.URL{nameURI(a.federation, role, name)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// IssuedAt returns when the broker's own CA issued a certificate, in seconds of the broker's clock.
func IssuedAt(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

// RenewAt returns when a cluster should renew its certificate: after half of its lifetime and up to a tenth
// more, the same for each renewal of a cluster, so that clusters do not renew at the same time.
func RenewAt(cert *x509.Certificate, clusterID string) time.Time {
	hash := fnv.New32a()
	hash.Write([]byte(clusterID))
	tenth := cert.NotAfter.Sub(cert.NotBefore) / 10
	return halfLife(cert).Add(time.Duration(hash.Sum32()%1000) * tenth / 1000)
}
