package tlsid_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

func TestMemberCertificateHoldsOnlyWhatTheBrokerDecided(t *testing.T) {
	c := newClock()
	a := open(t, t.TempDir(), c)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	greedy := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "root", Organization: []string{"system:masters"}},
		DNSNames: []string{"broker.test"},
		URIs:     []*url.URL{{Scheme: "bourse", Host: a.Federation(), Path: "/operator/ada"}},
		ExtraExtensions: []pkix.Extension{ // basicConstraints: CA
			{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}},
		},
	}, key))(t)
	cert := parse(t, must(a.SignMember(greedy, "milan"))(t))
	if len(cert.Subject.Names) != 0 || len(cert.DNSNames) != 0 || len(cert.URIs) != 1 || cert.IsCA {
		t.Errorf("subject %q, DNS %v, URIs %v, CA %v", cert.Subject, cert.DNSNames, cert.URIs, cert.IsCA)
	}
	if got, want := cert.URIs[0].String(), "bourse://"+a.Federation()+"/cluster/milan"; got != want {
		t.Errorf("named %s, want %s", got, want)
	}
	if len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth ||
		cert.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("usage %v %v", cert.KeyUsage, cert.ExtKeyUsage)
	}
	if !cert.NotBefore.Equal(c.now().Add(-5*time.Minute)) || !cert.NotAfter.Equal(c.now().Add(30*day)) {
		t.Errorf("valid from %s to %s", cert.NotBefore, cert.NotAfter)
	}
	again := parse(t, must(a.SignMember(greedy, "milan"))(t))
	if again.SerialNumber.Cmp(cert.SerialNumber) == 0 || cert.SerialNumber.BitLen() < 64 {
		t.Errorf("serial numbers %x and %x", cert.SerialNumber, again.SerialNumber)
	}
	peer := must(tlsid.ParsePeer(cert, a.Federation(), c.now()))(t)
	if csrKey := must(tlsid.CSRKey(greedy))(t); peer.Key != csrKey || csrKey.IsZero() {
		t.Errorf("the peer's key is %s, the request's %s", peer.Key, csrKey)
	}
}

func TestHostileRequests(t *testing.T) {
	a := open(t, t.TempDir(), newClock())
	good := must(tlsid.NewCSR(must(tlsid.NewKey())(t)))(t)
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	names := slices.Repeat([]string{"broker.test"}, 1000)
	request := func(key any) []byte {
		return must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	}
	for name, csr := range map[string][]byte{
		"empty":           nil,
		"not DER":         []byte("hello"),
		"cut":             good[:len(good)-1],
		"trailing data":   append(append([]byte(nil), good...), 0),
		"not its own key": forged,
		"P-384":           request(p384),
		"Ed25519":         request(ed),
		"large": must(x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{DNSNames: names}, ours))(t),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := a.SignMember(csr, "milan"); !errors.Is(err, tlsid.ErrBadCSR) {
				t.Errorf("signed, or %v", err)
			}
			if key, err := tlsid.CSRKey(csr); !errors.Is(err, tlsid.ErrBadCSR) || key != (identity.Fingerprint{}) {
				t.Errorf("key %s, %v", key, err)
			}
		})
	}
	for _, cluster := range []string{"", "Milan", "a/b", "../operator/ada", "milan\n", "a.b"} {
		if _, err := a.SignMember(good, cluster); err == nil {
			t.Errorf("signed for cluster %q", cluster)
		}
	}
}

func TestClustersRenewSpreadOut(t *testing.T) {
	c := newClock()
	cert := parse(t, newMember(t, open(t, t.TempDir(), c), "milan").cert)
	half := cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) / 2)
	perHour := make(map[int]int)
	for i := range 1000 {
		id := fmt.Sprintf("cluster-%d", i)
		at := tlsid.RenewAt(cert, id)
		if at != tlsid.RenewAt(cert, id) || at.Before(half) || at.After(half.Add(3*day+time.Hour)) {
			t.Fatalf("%s renews at %s, half its life is %s", id, at, half)
		}
		perHour[int(at.Sub(half).Hours())]++
	}
	for hour, n := range perHour { // 1000 over 72 hours: about 14
		if n > 60 {
			t.Errorf("%d of 1000 clusters renew in hour %d", n, hour)
		}
	}
}
