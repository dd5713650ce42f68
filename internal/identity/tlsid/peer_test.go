package tlsid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

func TestParsePeer(t *testing.T) {
	c := newClock()
	const federation = "fed"
	for _, test := range []struct {
		name   string
		change func(*x509.Certificate)
		uris   []string
		want   error
		peer   tlsid.Peer
	}{
		{name: "cluster", uris: []string{"bourse://fed/cluster/milan"},
			peer: tlsid.Peer{Role: tlsid.RoleCluster, Name: "milan"}},
		{name: "operator", uris: []string{"bourse://fed/operator/ada"},
			peer: tlsid.Peer{Role: tlsid.RoleOperator, Name: "ada"}},
		{name: "longest ID", uris: []string{"bourse://fed/cluster/" + strings.Repeat("a", 63)},
			peer: tlsid.Peer{Role: tlsid.RoleCluster, Name: strings.Repeat("a", 63)}},
		{name: "too long ID", uris: []string{"bourse://fed/cluster/" + strings.Repeat("a", 64)}, want: tlsid.ErrIdentity},
		{name: "no URI, only a CN", change: func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "milan"} },
			want: tlsid.ErrIdentity},
		{name: "no URI, only a DNS name", change: func(c *x509.Certificate) { c.DNSNames = []string{"milan"} },
			want: tlsid.ErrIdentity},
		{name: "two URIs", uris: []string{"bourse://fed/cluster/milan", "bourse://fed/cluster/turin"},
			want: tlsid.ErrIdentity},
		{name: "the same URI twice", uris: []string{"bourse://fed/cluster/milan", "bourse://fed/cluster/milan"},
			want: tlsid.ErrIdentity},
		{name: "another federation", uris: []string{"bourse://other/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "federation in another case", uris: []string{"bourse://FED/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "another scheme", uris: []string{"spiffe://fed/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "no scheme", uris: []string{"//fed/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "opaque", uris: []string{"bourse:fed/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "port", uris: []string{"bourse://fed:1/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "user", uris: []string{"bourse://a@fed/cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "query", uris: []string{"bourse://fed/cluster/milan?role=operator"}, want: tlsid.ErrIdentity},
		{name: "empty query", uris: []string{"bourse://fed/cluster/milan?"}, want: tlsid.ErrIdentity},
		{name: "fragment", uris: []string{"bourse://fed/cluster/milan#x"}, want: tlsid.ErrIdentity},
		{name: "escape", uris: []string{"bourse://fed/cluster/mil%61n"}, want: tlsid.ErrIdentity},
		{name: "escaped slash", uris: []string{"bourse://fed/cluster%2Fmilan"}, want: tlsid.ErrIdentity},
		{name: "deeper path", uris: []string{"bourse://fed/cluster/milan/x"}, want: tlsid.ErrIdentity},
		{name: "slash at the end", uris: []string{"bourse://fed/cluster/milan/"}, want: tlsid.ErrIdentity},
		{name: "double slash", uris: []string{"bourse://fed//cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "no name", uris: []string{"bourse://fed/cluster/"}, want: tlsid.ErrIdentity},
		{name: "no role", uris: []string{"bourse://fed/milan"}, want: tlsid.ErrIdentity},
		{name: "no path", uris: []string{"bourse://fed"}, want: tlsid.ErrIdentity},
		{name: "unknown role", uris: []string{"bourse://fed/admin/milan"}, want: tlsid.ErrIdentity},
		{name: "role in another case", uris: []string{"bourse://fed/Cluster/milan"}, want: tlsid.ErrIdentity},
		{name: "upper case ID", uris: []string{"bourse://fed/cluster/Milan"}, want: tlsid.ErrIdentity},
		{name: "dots", uris: []string{"bourse://fed/cluster/../operator/ada"}, want: tlsid.ErrIdentity},
		{name: "broker as a client", uris: []string{"bourse://fed/broker"}, want: tlsid.ErrIdentity},
		{name: "named broker", uris: []string{"bourse://fed/broker/milan"}, want: tlsid.ErrIdentity},
		{name: "CA as a client", uris: []string{"bourse://fed/cluster/milan"},
			change: func(c *x509.Certificate) { c.IsCA = true }, want: tlsid.ErrIdentity},
		{name: "server as a client", uris: []string{"bourse://fed/cluster/milan"},
			change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, want: tlsid.ErrIdentity},
		{name: "no usage", uris: []string{"bourse://fed/cluster/milan"},
			change: func(c *x509.Certificate) { c.ExtKeyUsage = nil }, want: tlsid.ErrIdentity},
		{name: "expired", uris: []string{"bourse://fed/cluster/milan"},
			change: func(cert *x509.Certificate) { cert.NotAfter = c.now().Add(-time.Second) }, want: tlsid.ErrExpired},
		{name: "not yet valid", uris: []string{"bourse://fed/cluster/milan"},
			change: func(cert *x509.Certificate) { cert.NotBefore = c.now().Add(time.Second) }, want: tlsid.ErrExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			template := clientTemplate(c, test.uris...)
			if test.change != nil {
				test.change(template)
			}
			cert := selfSigned(t, template)
			peer, err := tlsid.ParsePeer(cert, federation, c.now())
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			peer.Key = test.peer.Key
			if peer != test.peer {
				t.Errorf("peer %+v, want %+v", peer, test.peer)
			}
		})
	}
}

func FuzzParsePeer(f *testing.F) {
	f.Add("bourse://fed/cluster/milan")
	f.Add("bourse://fed/operator/ada#")
	f.Add("BOURSE://fed/broker/x")
	c := newClock()
	f.Fuzz(func(t *testing.T, name string) {
		uri, err := url.Parse(name)
		if err != nil {
			return // crypto/x509 refuses such a certificate
		}
		cert := clientTemplate(c)
		cert.URIs = []*url.URL{uri}
		peer, err := tlsid.ParsePeer(cert, "fed", c.now())
		if err != nil {
			return
		}
		// What url.Parse itself folds (the scheme's case, an empty fragment) is the only freedom.
		if spelled := "bourse://fed/" + string(peer.Role) + "/" +
			peer.Name; !strings.EqualFold(strings.TrimSuffix(name, "#"), spelled) {
			t.Errorf("%q was read as %+v", name, peer)
		}
	})
}

func clientTemplate(c *clock, uris ...string) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(7),
		NotBefore:             c.now().Add(-time.Hour),
		NotAfter:              c.now().Add(time.Hour),
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	return template
}

// selfSigned passes the template through DER, so that what is parsed is what the wire can carry.
func selfSigned(t testing.TB, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader,
		template, template, &key.PublicKey, key))(t)))(t)
}
