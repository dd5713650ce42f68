package peering

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"

	"github.com/bourse-dev/bourse/api"
)

// newCSR returns a certificate request in Liqo's format, in PEM.
func newCSR(signer crypto.Signer, organization, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{organization}, CommonName: name},
	}, signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// parseCSR parses a certificate request of one PEM block with an Ed25519 key. SliceCSR depends on
// the length of such requests.
func parseCSR(text []byte, consumer string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, api.Errorf(api.CodeBadSignature, "the certificate request of %s is not one PEM block", consumer)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, api.Errorf(api.CodeBadSignature, "the certificate request of %s: %s", consumer, err)
	}
	if _, ok := csr.PublicKey.(ed25519.PublicKey); !ok {
		return nil, api.Errorf(api.CodeBadSignature,
			"the key of %s's Liqo is not Ed25519, so the size of its certificates is unbounded", consumer).
			Fix("install Liqo there without authentication.tlsCompatibilityMode")
	}
	return csr, nil
}

// SliceCSR returns the greatest length of an honest certificate request for a slice: one with an
// Ed25519 key that names the consumer and no further group. The length is that of base64 of PEM, as
// in Kubernetes' JSON. Liqo checks only the name and the first group of a request, but certifies all
// groups. A further group takes at least ten bytes, more than a request can save on line breaks.
func SliceCSR(consumer, slice string) (int, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return 0, err
	}
	example, err := newCSR(key, consumer, slice+"-0123456789ab")
	return base64.StdEncoding.EncodedLen(len(example)), err
}
