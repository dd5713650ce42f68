package resourceagent_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// csr is a request (PEM) that asks for every name there is.
func csr(t *testing.T, key any) string {
	t.Helper()
	operator, _ := url.Parse("bourse://federation/operator/admin")
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "milan",
			Organization: []string{"LiqoResourceBroker"}}, DNSNames: []string{"broker.example.org"}, URIs: []*url.URL{operator},
	}, key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// An operator signs the request of an agent of the prototypes: it is then known as the cluster that
// the operator said, by that name alone.
func TestSignCSR(t *testing.T) {
	w := newTestFederation(t)
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	made := must(w.Operator.SignCSR(t.Context(), "cluster-1", csr(t, key), time.Hour))(t)
	block, rest := pem.Decode([]byte(made.Certificate))
	leaf := must(x509.ParseCertificate(block.Bytes))(t)
	if leaf.Subject.String() != "CN=cluster-1" ||
		len(leaf.URIs)+len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 || leaf.IsCA ||
		!slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("it is of %s, %v, for %v", leaf.Subject, leaf.URIs, leaf.ExtKeyUsage)
	}
	if left := time.Until(leaf.NotAfter); left > time.Hour || left < 50*time.Minute ||
		!made.Expires.Time.Equal(leaf.NotAfter) {
		t.Errorf("it lives for %s, said to be until %s", left, made.Expires)
	}
	if string(rest) != made.CA || made.CA != string(w.Authority.CAPEM()) {
		t.Errorf("after it comes %q", rest)
	}
	agent := w.showing(tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
	advertise := func() (int, string) {
		return w.call(agent, "POST", "/api/v1/advertisements", advert("cluster-1", "8", "8"))
	}
	if status, body := advertise(); status != http.StatusForbidden || !strings.Contains(body, "approve") {
		t.Fatalf("before it is approved: %d %s", status, body)
	}
	w.approve("cluster-1")
	if status, body := advertise(); status != http.StatusOK {
		t.Errorf("approved: %d %s", status, body)
	}
	if status, body := w.call(agent, "POST", "/api/v1/advertisements",
		advert("milan", "8", "8")); status != http.StatusForbidden {
		t.Errorf("for another, which the request named: %d %s", status, body)
	}
	if status, body := w.call(agent, "GET", "/apis/bourse.dev/v1alpha1/members", ""); status != http.StatusForbidden {
		t.Errorf("as the operator, which the request named: %d %s", status, body)
	}
	// Renewed, for as long as an operator's own lives, with another key.
	again := must(w.Operator.SignCSR(t.Context(), "cluster-1",
		csr(t, must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)), 0))(t)
	if left := time.Until(again.Expires.Time); left > 366*24*time.Hour || left < 364*24*time.Hour {
		t.Errorf("by default it lives for %s", left)
	}
}

func TestSignCSRErrors(t *testing.T) {
	w := newTestFederation(t)
	w.member("rome", "1", api.TrustLegacy)
	ours := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	good := csr(t, ours)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(good))
	forged := slices.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1
	for name, c := range map[string]struct {
		cluster, request string
		life             time.Duration
		want             api.Code
		field            string
	}{
		"another signature": {"cluster-1", string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: forged})),
			0, api.CodeInvalid, "request"},
		"a small key": {"cluster-1", csr(t, must(rsa.GenerateKey(rand.Reader, 1024))(t)),
			0, api.CodeInvalid, "request"},
		"another curve": {"cluster-1", csr(t, must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))(t)),
			0, api.CodeInvalid, "request"},
		"another kind":      {"cluster-1", csr(t, edwards), 0, api.CodeInvalid, "request"},
		"a certificate":     {"cluster-1", string(w.Authority.CAPEM()), 0, api.CodeInvalid, "request"},
		"two requests":      {"cluster-1", good + good, 0, api.CodeInvalid, "request"},
		"nothing":           {"cluster-1", "", 0, api.CodeInvalid, "request"},
		"no PEM":            {"cluster-1", string(block.Bytes[:8]), 0, api.CodeInvalid, "request"},
		"a large one":       {"cluster-1", strings.Repeat("x", 17<<10), 0, api.CodeInvalid, "request"},
		"no cluster":        {"Cluster 1", good, 0, api.CodeInvalid, "cluster"},
		"too long":          {"cluster-1", good, 8761 * time.Hour, api.CodeInvalid, "duration"},
		"less than nothing": {"cluster-1", good, -time.Hour, api.CodeInvalid, "duration"},
		"with its own key":  {"rome", good, 0, api.CodeConflict, ""},
	} {
		made, err := w.Operator.SignCSR(t.Context(), c.cluster, c.request, c.life)
		e, _ := err.(*api.Error)
		if e == nil || e.Code != c.want || e.Field != c.field || e.Remedy == "" || made.Certificate != "" {
			t.Errorf("%s: %v (%+v)", name, err, e)
		}
	}
	plain := servertest.Start(t, servertest.Options{}) // it would believe no such certificate
	if _, err := plain.Operator.SignCSR(t.Context(), "cluster-1", good, 0); api.CodeOf(err) != api.CodeConflict ||
		!strings.Contains(err.Error(), "--broker-interface") {
		t.Errorf("where such agents are not served: %v", err)
	}
}
