package resourceagent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/liqobroker"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func named(uri string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { u, _ := url.Parse(uri); c.URIs = []*url.URL{u} }
}

// town is a broker that serves the prototypes' interfaces, with its CA and theirs.
type testFederation struct {
	*servertest.Federation
	t            testing.TB
	theirs, ours servertest.SubjectCA
	agents       map[string]*http.Client
	members      map[string]*servertest.Member
	clock        *movedClock
}

// movedClock is the machine's, and what was let pass besides.
type movedClock struct {
	exchange.Clock
	more atomic.Int64
}

func (c *movedClock) Wall() time.Time       { return c.Clock.Wall().Add(time.Duration(c.more.Load())) }
func (c *movedClock) Passed() time.Duration { return c.Clock.Passed() + time.Duration(c.more.Load()) }

func newTestFederation(t testing.TB, more ...func(*resourceagent.Options)) *testFederation {
	t.Helper()
	clock := &movedClock{Clock: exchange.SystemClock()}
	f := servertest.Start(t, servertest.Options{Clock: clock})
	w := &testFederation{Federation: f, t: t, clock: clock, theirs: servertest.NewSubjectCA(t),
		agents: map[string]*http.Client{}, members: map[string]*servertest.Member{}}
	w.ours = servertest.SubjectCA{Cert: certificate(t, filepath.Join(f.CADir, "ca.crt")),
		Key: private(t, filepath.Join(f.CADir, "ca.key"))}
	if err := f.Authority.AdmitCommonNames(w.theirs.PEM()); err != nil {
		t.Fatal(err)
	}
	o := resourceagent.Options{Server: f.Server, Secret: bytes.Repeat([]byte{7}, 32),
		Wait: 2 * time.Second, Log: servertest.Silent()}
	for _, change := range more {
		change(&o)
	}
	resourceagent.Serve(o)
	liqobroker.Serve(liqobroker.Options{Server: f.Server, Orchestrator: true})
	return w
}

func certificate(t testing.TB, file string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(must(os.ReadFile(file))(t))
	return must(x509.ParseCertificate(block.Bytes))(t)
}

func private(t testing.TB, file string) any {
	t.Helper()
	block, _ := pem.Decode(must(os.ReadFile(file))(t))
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return key
	}
	return must(x509.ParseECPrivateKey(block.Bytes))(t)
}

// showing is a client with a certificate.
func (w *testFederation) showing(c tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.Authority.CAPEM())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if c.Certificate != nil {
		config.Certificates = []tls.Certificate{c}
	}
	return w.HTTP(config)
}

// agent is the client of a prototype's agent: its certificate is of their CA and names it by the subject.
func (w *testFederation) agent(name string) *http.Client {
	w.t.Helper()
	if name == "nobody" {
		return w.showing(tls.Certificate{})
	}
	if m := w.members[name]; m != nil {
		return m.HTTP
	}
	if w.agents[name] == nil {
		w.agents[name] = w.showing(w.theirs.Issue(w.t, name))
	}
	return w.agents[name]
}

// call makes a call and returns the status and the body.
func (w *testFederation) call(c *http.Client, method, path, body string) (int, string) {
	w.t.Helper()
	request := must(http.NewRequest(method, w.URL+path, strings.NewReader(body)))(w.t)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if path == "/api/v1/reservations" && method == "POST" { // it may stay pending
		request.Header.Set("Idempotency-Key", rand.Text())
	}
	response, err := c.Do(request)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	answer := string(must(io.ReadAll(response.Body))(w.t))
	failed := response.StatusCode >= http.StatusBadRequest
	theirs := strings.HasPrefix(path, "/api/") || path == "/healthz" && failed // which says ok, as a text
	if kind := response.Header.Get("Content-Type"); kind != "application/json" && answer != "" && theirs {
		w.t.Errorf("%s %s answers with %q", method, path, kind)
	}
	var is struct {
		Error  string
		Status int
	}
	if failed && theirs && (json.Unmarshal([]byte(answer), &is) != nil ||
		is.Error == "" || is.Status != response.StatusCode) {
		w.t.Errorf("%s %s: %d without an error that says so: %s", method, path, response.StatusCode, answer)
	}
	return response.StatusCode, answer
}

// approved makes agents members: they advertise, and the operator approves.
func (w *testFederation) approved(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if status, body := w.call(w.agent(name), "POST", "/api/v1/advertisements",
			advert(name, "8", "8")); status != http.StatusForbidden || !strings.Contains(body, "approve") {
			w.t.Fatalf("%s before it is approved: %d %s", name, status, body)
		}
		w.approve(name)
		if status, body := w.call(w.agent(name), "POST", "/api/v1/advertisements",
			advert(name, "8", "8")); status != http.StatusOK {
			w.t.Fatalf("%s: %d %s", name, status, body)
		}
	}
}

func (w *testFederation) approve(name string) {
	w.t.Helper()
	if _, err := w.Operator.SetMember(context.Background(), name, "approve"); err != nil {
		w.t.Fatal(err)
	}
}

func advert(name, allocatable, available string) string {
	return `{"clusterID":"` + name + `","clusterName":"cluster-advertisement","resources":{"capacity":{"cpu":"` + allocatable + `","memory":"16Gi"},` +
		`"allocatable":{"cpu":"` + allocatable + `","memory":"16Gi"},"allocated":{"cpu":"0","memory":"0"},"available":{"cpu":"` + available + `","memory":"16Gi"}},"timestamp":"2026-01-30T10:00:00Z"}`
}

// member makes a cluster with a key of its own a member, which lends so many CPUs and trusts so far.
func (w *testFederation) member(name, cpu string, trust api.TrustLevel) *servertest.Member {
	w.t.Helper()
	m := w.Join(name)
	measurement := m.Measurement(cpu)
	measurement.Terms.Trust = trust
	if err := m.PutAdvertisement(context.Background(), name, measurement); err != nil {
		w.t.Fatal(err)
	}
	w.members[name] = m
	return m
}

// accepts lets a provider accept each assignment.
func (w *testFederation) accepts(m *servertest.Member) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			all, _ := m.Reservations(ctx)
			for _, r := range all {
				if r.Payload.State == api.Held && r.Payload.Provider == m.ID {
					_, _ = m.Accept(ctx, r.ID, m.Agree(transport.Reservation(r)))
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

// reserved lets a member with a key reserve and sign.
func (w *testFederation) reserves(m *servertest.Member, cpu string) (string, error) {
	r, err := m.Reserve(context.Background(), "", transporttest.Request(cpu))
	if err != nil || r.Payload.State != api.Held {
		return r.ID, err
	}
	_, err = m.Confirm(context.Background(), r.ID, m.Assign(r))
	return r.ID, err
}

func tlsKey(t testing.TB) []byte { return must(tlsid.NewKey())(t) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
