package tlsid_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// company is a PKI that knows nothing of bourse but the names it was told to write.
type company struct {
	t    testing.TB
	c    *clock
	key  []byte
	cert []byte
}

func newCompany(t testing.TB, c *clock) company {
	t.Helper()
	key := must(tlsid.NewKey())(t)
	template := clientTemplate(c)
	template.Subject.CommonName = "company CA"
	template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	template.NotAfter = c.now().Add(365 * day)
	private := parseKey(t, key)
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	return company{t, c, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// write puts tls.crt, tls.key and ca.crt into dir, as cert-manager does.
func (co company) write(dir string, usage x509.ExtKeyUsage, uris ...string) {
	co.t.Helper()
	key := must(tlsid.NewKey())(co.t)
	template := clientTemplate(co.c, uris...)
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.NotAfter = co.c.now().Add(90 * day)
	der := must(x509.CreateCertificate(rand.Reader, template, parse(co.t, co.cert),
		&parseKey(co.t, key).PublicKey, parseKey(co.t, co.key)))(co.t)
	for name, text := range map[string][]byte{
		"ca.crt": co.cert, "tls.key": key, "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	} {
		write(co.t, text, dir, name)
	}
}

func TestProvidedCertificates(t *testing.T) {
	c := newClock()
	co := newCompany(t, c)
	brokerDir, milanDir := t.TempDir(), t.TempDir()
	co.write(brokerDir, x509.ExtKeyUsageServerAuth, "bourse://fed.company.example/broker")
	co.write(milanDir, x509.ExtKeyUsageClientAuth, "bourse://fed.company.example/cluster/milan")

	a := must(tlsid.OpenProvided(brokerDir, c.now, quiet))(t)
	address := serve(t, a)
	client := must(tlsid.OpenClient(milanDir, c.now, quiet))(t)
	if got, err := call(t, caller(t, client.Config()), address); err != nil || got != "cluster milan" {
		t.Fatalf("answered %q, %v", got, err)
	}
	if a.Federation() != "fed.company.example" {
		t.Errorf("federation %q", a.Federation())
	}
	csr := must(tlsid.NewCSR(must(tlsid.NewKey())(t)))(t)
	if _, err := a.SignMember(csr, "milan"); !errors.Is(err, tlsid.ErrCannotIssue) {
		t.Errorf("signed, or %v", err)
	}
	if pin, err := a.Pin(); !errors.Is(err, tlsid.ErrCannotIssue) {
		t.Errorf("pin %s, %v", pin, err)
	}
	if err := a.WriteOperator(filepath.Join(t.TempDir(), "operator"), "ada"); !errors.Is(err, tlsid.ErrCannotIssue) {
		t.Errorf("operator: %v", err)
	}

	// Both renewed by the company; expiry of the old ones shows that the new ones are in use.
	c.advance(89 * day)
	co.write(brokerDir, x509.ExtKeyUsageServerAuth, "bourse://fed.company.example/broker")
	co.write(milanDir, x509.ExtKeyUsageClientAuth, "bourse://fed.company.example/cluster/milan")
	c.advance(30 * day)
	if got, err := call(t, caller(t, client.Config()), address); err != nil || got != "cluster milan" {
		t.Errorf("after renewal: %q, %v", got, err)
	}
}

func TestUnusableRenewalKeepsTheOldCertificate(t *testing.T) {
	for name, renew := range map[string]func(t *testing.T, co company, dir string){
		"half written": func(t *testing.T, _ company, dir string) { write(t, must(tlsid.NewKey())(t), dir, "tls.key") },
		"gone":         func(t *testing.T, _ company, dir string) { os.Remove(filepath.Join(dir, "tls.crt")) },
		"another federation": func(_ *testing.T, co company, dir string) {
			co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://other/broker")
		},
		"a member's": func(_ *testing.T, co company, dir string) {
			co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://fed/cluster/milan")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			co := newCompany(t, c)
			dir, milanDir := t.TempDir(), t.TempDir()
			co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://fed/broker")
			co.write(milanDir, x509.ExtKeyUsageClientAuth, "bourse://fed/cluster/milan")
			var logged bytes.Buffer
			a := must(tlsid.OpenProvided(dir, c.now, slog.New(slog.NewTextHandler(&logged, nil))))(t)
			config := a.ServerConfig()
			before := must(config.GetCertificate(nil))(t)
			renew(t, co, dir)
			for range 2 {
				if after := must(config.GetCertificate(nil))(t); !after.Leaf.Equal(before.Leaf) {
					t.Error("the unusable certificate is in use")
				}
			}
			if n := strings.Count(logged.String(), "unusable"); n != 1 {
				t.Errorf("logged %d times, want once: %s", n, logged.String())
			}
			co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://fed/broker")
			if after := must(config.GetCertificate(nil))(t); after.Leaf.Equal(before.Leaf) {
				t.Error("a repaired certificate is not taken up")
			}
		})
	}
}

func TestProvidedRefusesToStart(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(co company, dir string)
		says   string
	}{
		{"no CA", func(_ company, dir string) { os.Remove(filepath.Join(dir, "ca.crt")) }, "ca.crt"},
		{"empty CA", func(co company, dir string) { write(co.t, nil, dir, "ca.crt") }, "ca.crt"},
		{"no key", func(_ company, dir string) { os.Remove(filepath.Join(dir, "tls.key")) }, "tls.key"},
		{"no name", func(co company, dir string) { co.write(dir, x509.ExtKeyUsageServerAuth) }, "bourse://FEDERATION/broker"},
		{"a member's name", func(co company, dir string) {
			co.write(dir,
				x509.ExtKeyUsageServerAuth, "bourse://fed/cluster/milan")
		}, "role"},
		{"a named broker", func(co company, dir string) {
			co.write(dir,
				x509.ExtKeyUsageServerAuth, "bourse://fed/broker/x")
		}, "must be"},
		{"no federation", func(co company, dir string) { co.write(dir, x509.ExtKeyUsageServerAuth, "bourse:///broker") },
			"federation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClock()
			co, dir := newCompany(t, c), t.TempDir()
			co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://fed/broker")
			test.damage(co, dir)
			_, err := tlsid.OpenProvided(dir, c.now, quiet)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "--tls-cert-dir") {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}
