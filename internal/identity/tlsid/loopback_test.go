package tlsid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

func TestJoinByPinThenCallByName(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	address := serve(t, a)

	joining := caller(t, tlsid.JoinConfig("127.0.0.1", must(a.Pin())(t), c.now))
	if got, err := call(t, joining, address); err != nil || !strings.HasPrefix(got, tlsid.ErrNoCertificate.Error()) {
		t.Fatalf("without a certificate: %q, %v", got, err)
	}
	milan := caller(t, newMember(t, a, "milan").client(t, a, c).Config())
	if got, err := call(t, milan, address); err != nil || got != "cluster milan" {
		t.Errorf("as a member: %q, %v", got, err)
	}
}

func TestJoinRefusesOtherServers(t *testing.T) {
	c := newClock()
	a, imposter := open(t, t.TempDir(), c), open(t, t.TempDir(), c)
	expired := newClock()
	expired.advance(60 * day)

	alone := selfSignedServer(t, c)
	for _, test := range []struct {
		name, address string
		host          string
		pin           identity.Fingerprint
		clock         *clock
		wrongCA       bool
	}{
		{"another CA", serve(t, imposter), "127.0.0.1", must(a.Pin())(t), c, true},
		{"no pin", serve(t, a), "127.0.0.1", identity.Fingerprint{}, c, true},
		{"no CA shown", serveAs(t, alone), "127.0.0.1", must(a.Pin())(t), c, true},
		// The pin is the key's of the leaf itself: a stolen leaf is not a CA.
		{"leaf pinned", serveAs(t, alone), "127.0.0.1", identity.FingerprintOf(alone.Leaf.RawSubjectPublicKeyInfo), c, true},
		// Anyone can append the real CA's certificate: it is public.
		{"real CA appended to a foreign leaf", serveAs(t, withCA(alone, a)), "127.0.0.1", must(a.Pin())(t), c, true},
		{"another host", serve(t, a), "elsewhere.test", must(a.Pin())(t), c, false},
		{"the client's clock is two months ahead", serve(t, a), "127.0.0.1", must(a.Pin())(t), expired, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := call(t, caller(t, tlsid.JoinConfig(test.host, test.pin, test.clock.now)), test.address)
			if err == nil || errors.Is(err, tlsid.ErrWrongCA) != test.wrongCA {
				t.Errorf("answered %q, error %v", got, err)
			}
		})
	}
}

// A member's certificate is by the pinned CA too: it must not do for a server.
func TestMemberCannotPoseAsBroker(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	a := open(t, dir, c)
	template := clientTemplate(c, "bourse://"+a.Federation()+"/cluster/milan")
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} // even if it had the broker's address
	milan := issueCarelessly(t, dir, template)
	address := serveAs(t, withCA(must(tls.X509KeyPair(milan.cert, milan.key))(t), a))
	if got, err := call(t, caller(t, tlsid.JoinConfig("127.0.0.1", must(a.Pin())(t), c.now)), address); err == nil {
		t.Errorf("joined there: %q", got)
	}
	if got, err := call(t, caller(t, newMember(t, a, "turin").client(t, a, c).Config()), address); err == nil {
		t.Errorf("called there: %q", got)
	}
}

func TestHostileClients(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	a, foreign := open(t, dir, c), open(t, t.TempDir(), c)
	address := serve(t, a)
	careless := func(template *x509.Certificate) member { return issueCarelessly(t, dir, template) }
	named := "bourse://" + a.Federation() + "/cluster/milan"
	server := clientTemplate(c, named)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	old := clientTemplate(c, named)
	old.NotAfter = c.now().Add(-time.Minute)
	commonName := clientTemplate(c)
	commonName.Subject.CommonName = "milan"

	for _, test := range []struct {
		name   string
		member member
		answer string // empty: the handshake fails
	}{
		{"careless but right", careless(clientTemplate(c, named)), "cluster milan"},
		{"of another CA", newMember(t, foreign, "milan"), ""},
		{"expired", careless(old), ""},
		{"for servers", careless(server), ""},
		{"of a federation that the CA may not name",
			careless(clientTemplate(c, "bourse://"+foreign.Federation()+"/cluster/milan")), ""},
		{"the CA itself", member{read(t, dir, "ca.key"), a.CAPEM()}, tlsid.ErrIdentity.Error()},
		{"two names", careless(clientTemplate(c, named, "bourse://"+a.Federation()+"/operator/ada")),
			tlsid.ErrIdentity.Error()},
		{"only a common name", careless(commonName), tlsid.ErrIdentity.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Its own choice of certificate, independent of the server's request.
			shown := must(tls.X509KeyPair(test.member.cert, test.member.key))(t)
			config := test.member.client(t, a, c).Config()
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
			got, err := call(t, caller(t, config), address)
			if (err != nil) != (test.answer == "") || !strings.HasPrefix(got, test.answer) {
				t.Errorf("answered %q, error %v; want %q", got, err, test.answer)
			}
		})
	}
}

func TestTLS12IsRefused(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	config := newMember(t, a, "milan").client(t, a, c).Config()
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if got, err := call(t, caller(t, config), serve(t, a)); err == nil {
		t.Errorf("answered %q", got)
	}
}

func TestBothSidesRenewWithoutARestart(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	address := serve(t, a)
	milan := newMember(t, a, "milan")
	client := milan.client(t, a, c)
	agent := caller(t, client.Config())
	reconnect := func() { agent.Transport.(*http.Transport).CloseIdleConnections() }
	shown := func() *x509.Certificate {
		conn := must(tls.Dial("tcp", address, tlsid.JoinConfig("127.0.0.1", must(a.Pin())(t), c.now)))(t)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	first := shown()

	c.advance(15*day - 10*time.Minute)
	if !shown().Equal(first) {
		t.Error("the broker renewed its certificate before half its life")
	}
	c.advance(10 * time.Minute)
	if second := shown(); second.Equal(first) || !second.NotAfter.After(first.NotAfter) {
		t.Error("the broker did not renew its certificate at half its life")
	}

	held := must(client.Certificate())(t)
	renewAt := tlsid.RenewAt(held, "milan")
	if half := held.NotBefore.Add(15 * day); renewAt.Before(half) || renewAt.After(half.Add(4*day)) {
		t.Errorf("renews at %s, which is not about %s", renewAt, half)
	}
	if got, err := call(t, agent, address); err != nil || got != "cluster milan" {
		t.Fatalf("before it renews: %q, %v", got, err)
	}
	c.advance(renewAt.Sub(c.now()))
	renewed := newMember(t, a, "milan")
	if err := client.Replace(renewed.key, renewed.cert); err != nil {
		t.Fatal(err)
	}
	c.advance(20 * day)
	// The old connection is still open, and what it showed has expired.
	if got, err := call(t, agent, address); err != nil || !strings.HasPrefix(got, tlsid.ErrExpired.Error()) {
		t.Errorf("over the old connection: %q, %v", got, err)
	}
	reconnect()
	if got, err := call(t, agent, address); err != nil || got != "cluster milan" {
		t.Errorf("over a new connection: %q, %v", got, err)
	}
	if err := client.Replace(milan.key, renewed.cert); err == nil {
		t.Error("took a certificate for another key")
	}
}

// A broker whose clock was set back must not show a certificate from the future.
func TestBrokerCertificateAfterClockWentBack(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	open(t, dir, c)
	c.advance(2 * day)
	a := open(t, dir, c)
	address := serve(t, a)
	c.advance(-day)
	if _, err := call(t, caller(t, newMember(t, a, "milan").client(t, a, c).Config()), address); err != nil {
		t.Error(err)
	}
}

// serveAs accepts TLS with a fixed certificate, as an imposter would.
func serveAs(t testing.TB, certificate tls.Certificate) (address string) {
	t.Helper()
	return serveWith(t, &tls.Config{Certificates: []tls.Certificate{certificate}}, http.NotFound)
}

// issueCarelessly signs any template with the CA in dir.
func issueCarelessly(t testing.TB, dir string, template *x509.Certificate) member {
	t.Helper()
	key := must(tlsid.NewKey())(t)
	ca, caKey := parse(t, read(t, dir, "ca.crt")), parseKey(t, read(t, dir, "ca.key"))
	der := must(x509.CreateCertificate(rand.Reader, template, ca, &parseKey(t, key).PublicKey, caKey))(t)
	return member{key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func selfSignedServer(t testing.TB, c *clock) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := clientTemplate(c)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))(t)}
}

func withCA(certificate tls.Certificate, a *tlsid.Authority) tls.Certificate {
	block, _ := pem.Decode(a.CAPEM())
	certificate.Certificate = [][]byte{certificate.Certificate[0], block.Bytes}
	return certificate
}

func parseKey(t testing.TB, text []byte) *ecdsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	return must(x509.ParsePKCS8PrivateKey(block.Bytes))(t).(*ecdsa.PrivateKey)
}
