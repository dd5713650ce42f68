package tlsid

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// LongestLegacy is how long a certificate of [Authority.SignLegacy] may live. It is renewed by
// hand, as an operator's.
const LongestLegacy = operatorLife

// maxLegacyCSR is above a request for the largest key that is taken, with the names that OpenSSL
// asks people for.
const maxLegacyCSR = 16 << 10

// ErrNoCommonNames says that a certificate would be believed by nobody.
var ErrNoCommonNames = errors.New("this broker serves no agents of the prototypes (--broker-interface http)")

// SignLegacy issues the certificate (PEM, followed by that of the CA) of a cluster whose agent is of the
// prototypes. It is for clients and for the key in the request (PEM). Its common name is the cluster ID, and
// it has no other name, so that it is worth nothing once the cluster has joined by itself. Names in the
// request are ignored. Errors: [ErrBadCSR], [ErrCannotIssue], [ErrNoCommonNames], a bad cluster ID.
func (a *Authority) SignLegacy(request []byte, clusterID string,
	life time.Duration) (chain []byte, expires time.Time, err error) {
	switch {
	case a.key == nil:
		return nil, expires, ErrCannotIssue
	case !a.commonNames:
		return nil, expires, ErrNoCommonNames
	}
	if err := checkLabel("cluster ID", clusterID); err != nil {
		return nil, expires, err
	}
	if life <= 0 || life > LongestLegacy {
		return nil, expires, fmt.Errorf("a life of %s is not between 0 and %s", life, LongestLegacy)
	}
	csr, err := parseLegacyCSR(request)
	if err != nil {
		return nil, expires, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: clusterID},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := a.issue(template, csr.PublicKey, life)
	if err != nil {
		return nil, expires, err
	}
	return append(certPEM(der), a.caPEM...), template.NotAfter, nil
}

// parseLegacyCSR reads a request as OpenSSL and cert-manager make them.
func parseLegacyCSR(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > maxLegacyCSR {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBadCSR, len(text), maxLegacyCSR)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("%w: it must be a PEM block of type CERTIFICATE REQUEST", ErrBadCSR)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%w: there is more than one request in it", ErrBadCSR)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCSR, err)
	}
	switch key := request.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 4096 {
			return nil, fmt.Errorf("%w: an RSA key of %d bits, must be 2048 to 4096", ErrBadCSR, bits)
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return nil, fmt.Errorf("%w: an ECDSA key must be P-256 or P-384", ErrBadCSR)
		}
	default:
		return nil, fmt.Errorf("%w: its key must be RSA, 2048 to 4096 bits, or ECDSA P-256 or P-384", ErrBadCSR)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: it is not signed by its own key", ErrBadCSR)
	}
	return request, nil
}
