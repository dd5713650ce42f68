package federation_test

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// asMember makes a call at a broker as a program of a member does, with the certificate of its agent. The empty
// name is that of the main broker.
func (f *fair) asMember(m *federation.Member, broker, method, path string) int {
	f.t.Helper()
	id := must(store.InDir(filepath.Join(f.Dir, m.Name)).Load(f.t.Context()))(f.t)
	at := id.Brokers[broker]
	if broker == "" {
		at = store.AtBroker{TLSKeyPEM: id.TLSKeyPEM, CertPEM: id.CertPEM, URL: f.URL}
	}
	ca := filepath.Join(f.Dir, cmp.Or(broker, "broker"), "ca", "ca.crt")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(ca))(f.t))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{must(tls.X509KeyPair(at.CertPEM, at.TLSKeyPEM))(f.t)}}}
	defer transport.CloseIdleConnections()
	request := must(http.NewRequestWithContext(f.t.Context(), method, at.URL+path, nil))(f.t)
	answer := must((&http.Client{Transport: transport}).Do(request))(f.t)
	defer answer.Body.Close()
	return answer.StatusCode
}

// What a buyer chose by /api/toggle counts at a seller's connector, too: broker up or down, and after
// the buyer's agent starts again.
func TestToggleCountsAtAConnector(t *testing.T) {
	t.Parallel()
	f := newFair(t, func(f *fair) { f.interfaces = prototypes.Options{Catalog: true, Orchestrator: true} })
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	if got := f.buys(f.rome, "first", api.Purchase{Digest: digest}); got.State != api.Reserved {
		t.Fatalf("%+v", got)
	}
	asks := func(name string, via api.Via) {
		t.Helper()
		request := api.Request{
			Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Digest: digest},
			Duration: &metav1.Duration{Duration: time.Hour},
		}
		must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: request, Via: via}))(t)
	}
	toggles := func(query string) {
		t.Helper()
		if status := f.asMember(f.rome, "", "POST", "/api/toggle?"+query); status != http.StatusOK {
			t.Fatalf("toggle %s: %d", query, status)
		}
	}
	toggles("id=milan&enable=false") // from now on only the chosen ones, which are none
	try := 0
	f.until("rome's agent has the choice", func() bool {
		try++
		name := fmt.Sprintf("direct-%d", try)
		asks(name, api.ViaDirect)
		return !f.givesBack(name)
	})
	direct := fmt.Sprintf("direct-%d", try)
	asks("auto", api.ViaAuto) // the broker decides, and knows the choice
	f.becomes(f.rome, "auto", func(now api.ResourceRequestStatus) bool { return now.State == api.Rejected })

	f.Broker.Stop()
	f.StopMember("rome")
	f.StartMember("rome")
	f.until("rome's agent listens again", func() bool {
		s, err := f.rome.People.Status(t.Context())
		return err == nil && !s.Connected
	})
	asks("alone", api.ViaAuto)
	f.becomes(f.rome, "alone", isForbidden)
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("rome is back", func() bool { return must(f.rome.People.Status(t.Context()))(t).Connected })
	toggles("id=milan&enable=true")
	f.becomes(f.rome, direct, func(now api.ResourceRequestStatus) bool { return now.State == api.Reserved })
}

// The choice at each broker counts at a connector. A seller that one of them names is permitted.
func TestToggleAtAnotherBrokerCounts(t *testing.T) {
	t.Parallel()
	f := newFair(t, func(f *fair) { f.interfaces = prototypes.Options{Catalog: true, Orchestrator: true} })
	north := must(f.StartOther("north"))(t)
	f.joins(north, f.rome, f.milan)
	must(f.rome.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	must(f.milan.People.AddPeer(t.Context(), "rome", f.fingerprint(f.rome), ""))(t)
	f.until("rome has met milan", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	f.until("north shows milan", func() bool {
		found, err := north.Operator.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 1
	})
	toggles := func(broker, query string) {
		t.Helper()
		if status := f.asMember(f.rome, broker, "POST", "/api/toggle?"+query); status != http.StatusOK {
			t.Fatalf("toggle %s at %s: %d", query, broker, status)
		}
	}
	try := 0
	bought := func() bool {
		t.Helper()
		try++
		name := fmt.Sprintf("direct-%d", try)
		request := api.Request{Duration: &metav1.Duration{Duration: time.Hour},
			Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Digest: digest}}
		must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: request, Via: api.ViaDirect}))(t)
		return f.givesBack(name)
	}
	toggles("north", "id=milan&enable=false")
	f.until("rome's agent has the choice at north", func() bool { return !bought() })
	toggles("", "id=milan&enable=true")
	f.becomes(f.rome, fmt.Sprintf("direct-%d", try), func(s api.ResourceRequestStatus) bool { return s.State == api.Reserved })
}

// givesBack reports whether a request of rome's is Reserved, not forbidden, and then releases it, so that
// the next can buy it.
func (f *fair) givesBack(name string) bool {
	f.t.Helper()
	var now api.ResourceRequestStatus
	f.becomes(f.rome, name, func(s api.ResourceRequestStatus) bool { now = s; return isReserved(s) || isForbidden(s) })
	if !isReserved(now) {
		return false
	}
	if err := f.rome.People.ReleaseLocally(f.t.Context(), now.Reservation, api.Release{}); err != nil {
		f.t.Fatal(err)
	}
	f.until(name+" is released", func() bool { // and may be deleted then
		r, err := f.rome.People.Request(f.t.Context(), "default", name)
		return api.CodeOf(err) == api.CodeNotFound || err == nil && r.Payload.Status.State == api.Released
	})
	return true
}

// isForbidden reports whether a request cannot be made because it is forbidden.
func isForbidden(now api.ResourceRequestStatus) bool {
	c := meta.FindStatusCondition(now.Conditions, api.ConditionReserved)
	return now.State == "" && c != nil && c.Reason == string(api.CodeForbidden)
}
