package peering

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
)

// A request for one more group is longer than any honest one, for all names and keys.
func TestOneGroupMoreIsLonger(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(key crypto.Signer, name string, groups ...string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	slice := "b-general-abcdefghijklmnop"
	for n := 1; n <= 63; n++ {
		consumer := strings.Repeat("c", n)
		most, err := SliceCSR(consumer, slice)
		if err != nil {
			t.Fatal(err)
		}
		honest, greedy := request(ed, slice+"-0123456789ab", consumer), request(ed, slice+"-0123456789ab", consumer, "x")
		if base64.StdEncoding.EncodedLen(len(honest)) > most {
			t.Errorf("%d: an honest request does not fit", n)
		}
		// Without its line breaks, which nobody needs.
		if bare := len(strings.ReplaceAll(string(greedy), "\n", "")) + 3; base64.StdEncoding.EncodedLen(bare) <= most {
			t.Errorf("%d: a request for one group more fits", n)
		}
	}
}

// By a key of another kind the length could not be bounded.
func TestOnlyEd25519(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := newCSR(key, organization, "rome")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseCSR(text, "rome"); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("%v", err)
	}
}

// A cluster whose Liqo has an RSA key learns from itself that it cannot borrow, and how it could:
// it asks nobody.
func TestKeys(t *testing.T) {
	secret := func(key any) *corev1.Secret {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName},
			Data: map[string][]byte{
				consts.PrivateKeyField: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
					Bytes: der}), consts.PublicKeyField: []byte("public"),
			}}
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret *corev1.Secret
		code   api.Code
	}{
		"Ed25519": {secret(ed), ""},
		"RSA":     {secret(long), api.CodeUnavailable},
		"not made": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName}},
			api.CodeUnavailable},
	} {
		signer, public, err := Keys(t.Context(), fake.NewClientBuilder().WithObjects(c.secret).Build(), "liqo")
		if c.code == "" && (err != nil || signer == nil || string(public) != "public") ||
			c.code != "" && api.CodeOf(err) != c.code {
			t.Errorf("%s: %v, %v", name, signer, err)
		}
		if said, _ := errors.AsType[*api.Error](err); name == "RSA" &&
			(said == nil || !strings.Contains(said.Remedy, "tlsCompatibilityMode")) {
			t.Errorf("the remedy of %v", err)
		}
	}
}
