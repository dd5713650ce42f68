package tlsid_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// subject is a client of the company's CA that only a subject names.
func (co company) subject(name string, change ...func(*x509.Certificate)) *tls.Config {
	co.t.Helper()
	key := must(tlsid.NewKey())(co.t)
	template := clientTemplate(co.c)
	template.URIs, template.Subject.CommonName = nil, name
	for _, f := range change {
		f(template)
	}
	private := parseKey(co.t, key)
	der := must(x509.CreateCertificate(rand.Reader, template, parse(co.t, co.cert),
		&private.PublicKey, parseKey(co.t, co.key)))(co.t)
	roots := x509.NewCertPool()
	roots.AddCert(parse(co.t, co.cert))
	return &tls.Config{RootCAs: roots, Time: co.c.now,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
}

// A subject names a cluster where that was switched on, beside the names that a member has; nobody
// is an operator by it.
func TestCommonNames(t *testing.T) {
	c := newClock()
	co, other := newCompany(t, c), newCompany(t, c)
	dir, milanDir := t.TempDir(), t.TempDir()
	co.write(dir, x509.ExtKeyUsageServerAuth, "bourse://fed.company.example/broker")
	co.write(milanDir, x509.ExtKeyUsageClientAuth, "bourse://fed.company.example/cluster/milan")
	strict := must(tlsid.OpenProvided(dir, c.now, quiet))(t)
	if got, err := call(t, caller(t, co.subject("cluster-1")), serve(t, strict)); err != nil ||
		!strings.Contains(got, "does not identify") {
		t.Errorf("where it is off: %q, %v", got, err)
	}
	a := must(tlsid.OpenProvided(dir, c.now, quiet))(t)
	if err := a.AdmitCommonNames([]byte("nothing")); err == nil {
		t.Error("a CA that is none was taken")
	}
	if err := a.AdmitCommonNames(other.cert); err != nil {
		t.Fatal(err)
	}
	address := serve(t, a)
	if got, err := call(t, caller(t, must(tlsid.OpenClient(milanDir, c.now, quiet))(t).Config()), address); err != nil ||
		got != "cluster milan" {
		t.Errorf("a member: %q, %v", got, err)
	}
	trusting := func(config *tls.Config) *tls.Config {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AddCert(parse(t, co.cert))
		return config
	}
	uri := func(text string) func(*x509.Certificate) {
		return func(cert *x509.Certificate) { cert.URIs = clientTemplate(c, text).URIs }
	}
	server := func(cert *x509.Certificate) { cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth) }
	for name, try := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"of the same CA": {co.subject("cluster-1"), "legacy cluster-1"},
		"of another CA":  {trusting(other.subject("cluster-1")), "legacy cluster-1"},
		"an operator of another CA": {trusting(other.subject("cluster-1", uri("bourse://fed.company.example/operator/ada"))),
			"legacy cluster-1"},
		"a member of another CA": {trusting(other.subject("cluster-1",
			uri("bourse://fed.company.example/cluster/milan"))), "legacy cluster-1"},
		"a server":                   {co.subject("liqo-resource-broker", server), "not a certificate for clients alone"},
		"no cluster ID":              {co.subject("Cluster 1"), "common name"},
		"no name":                    {co.subject(""), "common name"},
		"an operator of the same CA": {co.subject("x", uri("bourse://fed.company.example/operator/ada")), "operator ada"},
	} {
		if got, err := call(t, caller(t, try.config), address); err != nil || !strings.Contains(got, try.want) {
			t.Errorf("%s: %q, %v; want %s", name, got, err, try.want)
		}
	}
}
