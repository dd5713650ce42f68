package enrollment

import (
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// An agent whose certificate comes from another CA, such as cert-manager's, joins without a token
// and makes its key.
func TestProvidedCertificate(t *testing.T) {
	dir, ca := t.TempDir(), servertest.NewSubjectCA(t)
	o := Options{
		Cluster: "rome", Store: store.InDir(t.TempDir()), CertDir: dir, BrokerURL: "https://broker.example:7443",
		Log: slog.New(slog.DiscardHandler),
	}
	if _, err := New(t.Context(), o); !isInvalid(err, "--broker-cert-path") {
		t.Errorf("without files: %v", err)
	}
	own := ca.Issue(t, "", func(c *x509.Certificate) {
		c.URIs = []*url.URL{{Scheme: "bourse", Host: "fed.example", Path: "/cluster/rome"}}
	})
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.crt": ca.PEM(), "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := m.Certificate(); err != nil || len(shown.URIs) != 1 || shown.URIs[0].Path != "/cluster/rome" {
		t.Errorf("it shows %v, %v", shown, err)
	}
	again, err := New(t.Context(), o)
	if err != nil || again.Key().Public().String() != m.Key().Public().String() {
		t.Errorf("after a start it has another key, or %v", err)
	}
	o.BrokerURL = ""
	if _, err := New(t.Context(), o); !isInvalid(err, "--broker-url") {
		t.Errorf("without the URL: %v", err)
	}
}

func isInvalid(err error, field string) bool {
	wrong, ok := err.(*api.Error)
	return ok && wrong.Code == api.CodeInvalid && wrong.Field == field
}
