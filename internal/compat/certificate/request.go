package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// maxRequest is above a request for the largest key that is taken, with the names that OpenSSL asks
// people for.
const maxRequest = 16 << 10

// parseRequest returns the key of a request as OpenSSL and cert-manager make them.
func parseRequest(text []byte) (crypto.PublicKey, error) {
	if len(text) > maxRequest {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), maxRequest)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST" {
		return nil, errors.New("it must be a PEM block of type CERTIFICATE REQUEST")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("there is more than one request in it")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch key := request.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 4096 {
			return nil, fmt.Errorf("an RSA key of %d bits, must be 2048 to 4096", bits)
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return nil, errors.New("an ECDSA key must be P-256 or P-384")
		}
	default:
		return nil, errors.New("its key must be RSA, 2048 to 4096 bits, or ECDSA P-256 or P-384")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, errors.New("it is not signed by its own key")
	}
	return request.PublicKey, nil
}
