package tlsid_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestCAIsMadeOnceAndPrivate(t *testing.T) {
	c := newClock()
	dir := filepath.Join(t.TempDir(), "state", "ca")
	first, again := open(t, dir, c), open(t, dir, c)
	if first.Federation() != again.Federation() || must(first.Pin())(t) != must(again.Pin())(t) ||
		!bytes.Equal(first.CAPEM(), again.CAPEM()) {
		t.Error("another CA after a restart")
	}
	if problems := validation.IsDNS1123Label(first.Federation()); len(problems) > 0 {
		t.Errorf("federation %q: %v", first.Federation(), problems)
	}
	if open(t, t.TempDir(), c).Federation() == first.Federation() {
		t.Error("two CAs found the same federation")
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ca.key"): 0o600,
		filepath.Join(dir, "ca.crt"): 0o600} {
		if info := must(os.Stat(path))(t); info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", filepath.Base(path), info.Mode().Perm(), mode)
		}
	}
	if files := must(os.ReadDir(dir))(t); len(files) != 2 {
		t.Errorf("%d files, want 2: %v", len(files), files)
	}
}

func TestCACanOnlyNameItsFederation(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	ca := parse(t, a.CAPEM())
	if !ca.IsCA || !ca.MaxPathLenZero || len(ca.PermittedURIDomains) != 1 || ca.PermittedURIDomains[0] != a.Federation() {
		t.Errorf("CA %v, path length 0 %v, may name %v", ca.IsCA, ca.MaxPathLenZero, ca.PermittedURIDomains)
	}
	if life := ca.NotAfter.Sub(c.now()); life != 3650*day {
		t.Errorf("lives %s", life)
	}
}

// A start that was killed between the two files, or a ca.crt that was lost: the key is the CA.
func TestLostCACertificateIsMadeAgain(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	before := open(t, dir, c)
	milan := newMember(t, before, "milan")
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	after := open(t, dir, c)
	if after.Federation() != before.Federation() || must(after.Pin())(t) != must(before.Pin())(t) {
		t.Error("it became another federation")
	}
	// The member still has the old CA certificate and one of its own by it.
	if got, err := call(t, caller(t, milan.client(t, before, c).Config()), serve(t, after)); err != nil ||
		got != "cluster milan" {
		t.Errorf("answered %q, %v", got, err)
	}
}

func TestBrokenCARefusesToStart(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string, c *clock)
		says   string
	}{
		{"key lost", func(t *testing.T, dir string, _ *clock) { os.Remove(filepath.Join(dir, "ca.key")) }, "restore it"},
		{"key empty", func(t *testing.T, dir string, _ *clock) { write(t, nil, dir, "ca.key") }, "PEM"},
		{"certificate empty", func(t *testing.T, dir string, _ *clock) { write(t, nil, dir, "ca.crt") }, "ca.crt"},
		{"key of another CA", func(t *testing.T, dir string, c *clock) {
			other := t.TempDir()
			open(t, other, c)
			write(t, read(t, other, "ca.key"), dir, "ca.key")
		}, "does not belong"},
		{"expired", func(_ *testing.T, _ string, c *clock) { c.advance(3651 * day) }, "remove it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClock()
			dir := t.TempDir()
			open(t, dir, c)
			test.damage(t, dir, c)
			_, err := tlsid.Open(dir, []string{"127.0.0.1"}, c.now)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}

func TestBrokerHosts(t *testing.T) {
	c := newClock()
	for _, test := range []struct {
		hosts []string
		ok    bool
	}{
		{[]string{"broker.example", "10.0.0.1", "2001:db8::1", "*.broker.example", "localhost"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"broker.example:443"}, false},
		{[]string{"https://broker.example"}, false},
	} {
		_, err := tlsid.Open(t.TempDir(), test.hosts, c.now)
		if (err == nil) != test.ok {
			t.Errorf("hosts %q: %v", test.hosts, err)
		}
	}
}

func TestOperatorCertificateIsWrittenOnce(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	dir := filepath.Join(t.TempDir(), "operator")
	for range 2 {
		if err := a.WriteOperator(dir, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	first := parse(t, read(t, dir, "tls.crt"))
	if err := a.WriteOperator(dir, "eve"); err != nil || !parse(t, read(t, dir, "tls.crt")).Equal(first) {
		t.Errorf("written over, %v", err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if info := must(os.Stat(filepath.Join(dir, name)))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
	client := must(tlsid.OpenClient(dir, c.now, quiet))(t)
	c.advance(300 * day)
	if got, err := call(t, caller(t, client.Config()), serve(t, a)); err != nil || got != "operator ada" {
		t.Errorf("answered %q, %v", got, err)
	}
	if err := a.WriteOperator(t.TempDir(), "Ada L."); err == nil {
		t.Error("took a name that no route could hold")
	}
}

func TestCertificatesEndWithTheirCA(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	c.advance(3640 * day)
	cert := parse(t, newMember(t, a, "milan").cert)
	if ca := parse(t, a.CAPEM()); !cert.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("ends %s, its CA %s", cert.NotAfter, ca.NotAfter)
	}
}
