package tlsid_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// Only a CA that believes common names makes a certificate with one.
func TestSignLegacy(t *testing.T) {
	c := newClock()
	key := parseKey(t, must(tlsid.NewKey())(t))
	der := must(x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "other"}}, key))(t)
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	a := must(tlsid.Open(t.TempDir(), []string{"127.0.0.1"}, c.now))(t)
	if _, _, err := a.SignLegacy(request, "cluster-1", time.Hour); !errors.Is(err, tlsid.ErrNoCommonNames) {
		t.Errorf("where it is off: %v", err)
	}
	if err := a.AdmitCommonNames(nil); err != nil {
		t.Fatal(err)
	}
	chain, expires, err := a.SignLegacy(request, "cluster-1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(chain)
	leaf := must(x509.ParseCertificate(block.Bytes))(t)
	if leaf.Subject.CommonName != "cluster-1" || len(leaf.URIs) > 0 ||
		!leaf.NotAfter.Equal(expires) || string(rest) != string(a.CAPEM()) {
		t.Errorf("it is of %s, %v, until %s", leaf.Subject, leaf.URIs, expires)
	}
	for name, try := range map[string]struct {
		request []byte
		cluster string
		life    time.Duration
	}{
		"no name": {request, "", time.Hour}, "two labels": {request,
			"a.b", time.Hour}, "for ever": {request, "a", tlsid.LongestLegacy + 1},
		"for nothing": {request, "a", 0}, "no request": {nil, "a", time.Hour},
	} {
		if _, _, err := a.SignLegacy(try.request, try.cluster, try.life); err == nil {
			t.Errorf("%s: it was signed", name)
		}
	}
}

// Each request is signed for the given name, or refused.
func FuzzSignLegacy(f *testing.F) {
	c := newClock()
	key := parseKey(f, must(tlsid.NewKey())(f))
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(f)
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte{})
	a := must(tlsid.Open(f.TempDir(), []string{"127.0.0.1"}, c.now))(f)
	if err := a.AdmitCommonNames(nil); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		chain, _, err := a.SignLegacy(request, "cluster-1", time.Hour)
		if err != nil {
			return
		}
		block, _ := pem.Decode(chain)
		if leaf := must(x509.ParseCertificate(block.Bytes))(t); leaf.Subject.String() != "CN=cluster-1" ||
			len(leaf.URIs) > 0 {
			t.Errorf("it names %s", leaf.Subject)
		}
	})
}
