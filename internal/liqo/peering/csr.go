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

// newCSR is a certificate request as Liqo makes them, in PEM.
func newCSR(signer crypto.Signer, organization, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{organization}, CommonName: name},
	}, signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// parseCSR reads a certificate request that is one PEM block, by a key as Liqo makes them: on its length SliceCSR depends.
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
		return nil, api.Errorf(api.CodeBadSignature, "the key of %s's Liqo is not Ed25519: the size of its certificates has no bound", consumer).
			Fix("install Liqo there without authentication.tlsCompatibilityMode")
	}
	return csr, nil
}

// SliceCSR is how long, in base64 of PEM as Kubernetes' JSON has it, the certificate request for a slice can be that is made by an Ed25519 key
// and names the consumer and nobody else: Liqo checks the name and the first group of the request, and has whatever further
// groups certified that are in it. One more takes at least ten bytes, which is more than can be saved on line breaks.
func SliceCSR(consumer, slice string) (int, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return 0, err
	}
	example, err := newCSR(key, consumer, slice+"-0123456789ab")
	return base64.StdEncoding.EncodedLen(len(example)), err
}
