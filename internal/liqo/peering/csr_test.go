package peering

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A consumer gets a certificate in its own name or none: in Liqo the name becomes a user.
func TestCertificateRequestsInOtherNames(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name pkix.Name) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	good := request(pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}})
	if err := checkCSR(&api.HandshakeTenant{CSR: good}, "rome"); err != nil {
		t.Errorf("in its own name: %v", err)
	}
	for what, csr := range map[string][]byte{
		"nothing":            nil,
		"no PEM":             []byte("x"),
		"no request":         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}),
		"two of them":        append(append([]byte{}, good...), good...),
		"of another cluster": request(pkix.Name{CommonName: "oslo", Organization: []string{"liqo.io"}}),
		"of an admin":        request(pkix.Name{CommonName: "rome", Organization: []string{"system:masters"}}),
		"of an admin, too":   request(pkix.Name{CommonName: "rome", Organization: []string{"liqo.io", "system:masters"}}),
		"of no organization": request(pkix.Name{CommonName: "rome"}),
		"with more names": request(pkix.Name{CommonName: "rome",
			Organization: []string{"liqo.io"}, OrganizationalUnit: []string{"x"}}),
	} {
		if err := checkCSR(&api.HandshakeTenant{CSR: csr}, "rome"); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: %v", what, err)
		}
	}
}
