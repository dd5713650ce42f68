package certificate_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/certificate"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

func open(t testing.TB) *tlsid.Authority {
	t.Helper()
	a, err := tlsid.Open(t.TempDir(), []string{"127.0.0.1"}, func() time.Time {
		return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// request makes a certificate request for a new key, with a common name.
func request(t testing.TB, name string) string {
	t.Helper()
	text, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func sign(a *tlsid.Authority, request, cluster string, life time.Duration) (api.CertificateCreated, error) {
	ask := api.CertificateCreate{Request: request, Duration: metav1.Duration{Duration: life}}
	return certificate.Make(a, market.New("").Publish(nil), cluster, ask)
}

func admitting(t testing.TB) *tlsid.Authority {
	t.Helper()
	a := open(t)
	if err := a.AdmitCommonNames(nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// Only a CA that believes common names makes a certificate with one.
func TestMake(t *testing.T) {
	asked := request(t, "other")
	if _, err := sign(open(t), asked, "cluster-1", time.Hour); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("where it is off: %v", err)
	}
	a := admitting(t)
	made, err := sign(a, asked, "cluster-1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode([]byte(made.Certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.CommonName != "cluster-1" || len(leaf.URIs) > 0 ||
		!leaf.NotAfter.Equal(made.Expires.Time) || string(rest) != string(a.CAPEM()) {
		t.Errorf("it is of %s, %v, until %s", leaf.Subject, leaf.URIs, made.Expires)
	}
	for name, try := range map[string]struct {
		request, cluster string
		life             time.Duration
	}{
		"no name": {asked, "", time.Hour}, "two labels": {asked, "a.b", time.Hour},
		"for ever": {asked, "a", 365*24*time.Hour + 1}, "for less than nothing": {asked, "a", -1},
		"no request": {"", "a", time.Hour},
	} {
		if _, err := sign(a, try.request, try.cluster, try.life); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: it was signed, or %v", name, err)
		}
	}
}

// Each request is signed for the given name, or refused.
func FuzzMake(f *testing.F) {
	f.Add(request(f, ""))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n")
	f.Add("")
	a := admitting(f)
	f.Fuzz(func(t *testing.T, request string) {
		made, err := sign(a, request, "cluster-1", time.Hour)
		if err != nil {
			return
		}
		block, _ := pem.Decode([]byte(made.Certificate))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.Subject.String() != "CN=cluster-1" || len(leaf.URIs) > 0 {
			t.Errorf("it names %s", leaf.Subject)
		}
	})
}
