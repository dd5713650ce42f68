package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// thief calls with a certificate that somebody stole, without the cluster's key.
type thief struct {
	*servertest.Member
	t   *testing.T
	url string
}

// works lists what the stolen certificate can still do.
func (s thief) works() (what []string) {
	s.t.Helper()
	ctx := s.t.Context()
	if _, err := s.Clusters(ctx); err == nil {
		what = append(what, "list")
	}
	if err := s.PutAdvertisement(ctx, s.ID, s.Measurement("8")); err == nil {
		what = append(what, "advertise")
	}
	if s.renews() {
		what = append(what, "renew")
	}
	return what
}

// renews reports whether the broker issues a certificate for a request that only the TLS connection
// vouches for.
func (s thief) renews() bool {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"csr": csr(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.HTTP.Post(s.url+api.Prefix+"/renew", "application/json", bytes.NewReader(body))
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// A stolen certificate ends with the membership in which it was issued: it is not good again when
// the cluster is back.
func TestAStolenCertificateEndsWithTheMembership(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	stolen := thief{rome, t, f.URL}
	if what := stolen.works(); len(what) < 2 {
		t.Fatalf("before the theft is known the certificate can only %v", what)
	}
	for _, step := range []string{"revoke", "remove"} {
		if _, err := f.Operator.SetMember(t.Context(), "rome", step); err != nil {
			t.Fatal(err)
		}
	}
	again := f.Join("rome")
	if what := stolen.works(); len(what) > 0 {
		t.Errorf("after revoke, remove and join the stolen certificate can %v", what)
	}
	if _, err := again.Clusters(t.Context()); err != nil {
		t.Errorf("the cluster itself: %v", err)
	}
}

// A stolen certificate does not renew itself.
func TestAStolenCertificateDoesNotRenewItself(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	if (thief{f.Join("rome"), t, f.URL}).renews() {
		t.Error("the TLS connection alone renews a certificate")
	}
}

// An agent renews by its cluster key. The former certificate is good for a while, then only the newest is.
func TestRenewal(t *testing.T) {
	ctx := t.Context()
	clock := transporttest.NewClock()
	f := servertest.Start(t, servertest.Options{Clock: clock})
	rome := f.Join("rome")
	former := *rome
	if err := rome.Renew(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*servertest.Member{"former": &former, "new": rome} {
		if _, err := c.Clusters(ctx); err != nil {
			t.Errorf("right after the renewal the %s certificate: %v", name, err)
		}
	}
	if err := rome.Renew(); api.CodeOf(err) != api.CodeTooManyRequests {
		t.Errorf("another renewal at once: %v", err)
	}
	pass(f, clock, market.CertificateGrace+time.Second)
	if _, err := former.Clusters(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("after the grace the former certificate: %v", err)
	}
	if what := (thief{&former, t, f.URL}).works(); len(what) > 0 {
		t.Errorf("after the grace the former certificate can %v", what)
	}
	if f.Server.EndedCertificates() == 0 {
		t.Error("calls with an ended certificate are not counted")
	}
	if _, err := rome.Clusters(ctx); err != nil {
		t.Errorf("after the grace the new certificate: %v", err)
	}
	for range 6 { // agents that crash before they store what they got
		lost := *rome
		if err := lost.Renew(); err != nil {
			t.Fatal(err)
		}
		pass(f, clock, market.RenewEvery)
	}
	if err := rome.Renew(); err != nil {
		t.Errorf("after renewals whose answers were lost: %v", err)
	}
	if keys := f.Exchange.View().Listing("rome").Member.TLSKeys; len(keys) > 5 {
		t.Errorf("%d keys are good", len(keys))
	}
}

// pass lets time pass.
func pass(f *servertest.Federation, clock *transporttest.Clock, d time.Duration) {
	for ; d > 0; d -= 25 * time.Second {
		clock.Move(min(d, 25*time.Second), func() time.Time { return f.Exchange.Now().Go() })
	}
}

// Who stole a cluster key renews as often as it may, so that the agent's own certificate ends. The
// agent, which has given that key up, gets a certificate at once; all that the stolen key got ends
// with that, on open watches too.
func TestAThiefKeepsNoSuccessorOut(t *testing.T) {
	ctx := t.Context()
	// nothing but the renewal ends a watch
	f := servertest.Start(t, servertest.Options{Clock: transporttest.NewClock(), Bounds: server.Bounds{Quiet: time.Hour}})
	milan := f.Join("milan")
	party := *milan.Party
	stolen := *milan
	stolen.Party = &party
	if _, err := f.Operator.SetMember(ctx, "milan", "end-certificates"); err != nil {
		t.Fatal(err)
	}
	if err := stolen.Renew(); err != nil {
		t.Fatal(err)
	}
	if err := milan.Renew(); api.CodeOf(err) != api.CodeTooManyRequests {
		t.Errorf("right after the thief the same key renews: %v", err)
	}
	open, ended := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		ended <- stolen.Watch(ctx, "", func(api.WatchEvent) error { open <- struct{}{}; return nil })
	}()
	<-open
	milan.Rotate()
	if err := milan.Renew(); err != nil {
		t.Fatalf("right after the thief the next key renews: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the thief's watch ended without a word")
	}
	if what := (thief{&stolen, t, f.URL}).works(); len(what) > 0 {
		t.Errorf("the thief can still %v", what)
	}
	if err := stolen.Renew(); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("the stolen key renews: %v", err)
	}
	milan.ShowCard(api.Properties{Region: "eu"})
	if m := f.Exchange.View().Listing("milan").Member; m.Key != milan.Key.Public().String() || len(m.Former) != 1 {
		t.Errorf("the broker knows milan by %s, and formerly by %v", m.Key, m.Former)
	}
}

// A repeated renewal for the same TLS key is the same renewal: its answer may have been lost.
func TestRenewalRepeated(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := f.Stranger().Renew(t.Context(), rome.Renewal(key)); err != nil {
			t.Fatal(err)
		}
	}
	if keys := f.Exchange.View().Listing("rome").Member.TLSKeys; len(keys) != 2 {
		t.Errorf("%d keys are good, want the new and the former", len(keys))
	}
}

// Only the cluster key that the broker knows renews, for this broker, now.
func TestHostileRenewals(t *testing.T) {
	w := newFixture(t)
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	before := *w.milan
	party := *w.milan.Party
	before.Party = &party
	w.milan.Rotate()
	w.milan.ShowCard(api.Properties{})
	gone := w.Join("vienna")
	if _, err := w.Operator.SetMember(t.Context(), "vienna", "remove"); err != nil {
		t.Fatal(err)
	}
	as := func(m *servertest.Member, change ...func(*join.RenewalRequest)) join.Renewal {
		return m.Renewal(key, change...)
	}
	claimed := as(w.oslo)
	claimed.Cluster = "milan"
	others := as(w.oslo, func(r *join.RenewalRequest) { r.Cluster = "milan" })
	unknown := as(w.oslo, func(r *join.RenewalRequest) { r.Cluster = "atlantis" })
	unsigned := as(w.oslo)
	unsigned.Key = w.milan.Key.Public()
	var calls []call
	for name, c := range map[string]struct {
		renewal join.Renewal
		want    api.Code
	}{
		"of a former key":            {as(&before), api.CodeKeyChanged},
		"of another cluster":         {others, api.CodeKeyChanged},
		"signed for another cluster": {claimed, api.CodeInvalid},
		"signed by another key":      {unsigned, api.CodeInvalid},
		"signed for another federation": {as(w.oslo, func(r *join.RenewalRequest) { r.Federation = "other" }),
			api.CodeInvalid},
		"signed an hour ago": {as(w.oslo, func(r *join.RenewalRequest) { r.Time = r.Time.Add(-time.Hour) }),
			api.CodeInvalid},
		"with no certificate request": {as(w.oslo, func(r *join.RenewalRequest) { r.CSR = []byte("no") }),
			api.CodeInvalid},
		"of a member that was removed":   {as(gone), api.CodeSuspended},
		"of a cluster that nobody knows": {unknown, api.CodeSuspended},
	} {
		body, err := json.Marshal(c.renewal)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call{name: name, by: w.nobody, method: "POST",
			path: "/renew", body: string(body), want: c.want, field: map[api.Code]string{api.CodeInvalid: "request"}[c.want]})
	}
	w.refused(t, calls)
	if _, err := w.Stranger().Renew(t.Context(), as(w.milan)); err != nil {
		t.Errorf("by the newest key: %v", err)
	}
}

// An operator ends a member's certificates, on open connections and watches too. The member stays
// one, and renews.
func TestOperatorEndsCertificates(t *testing.T) {
	ctx := t.Context()
	// nothing but the operator's word ends the watch
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Quiet: time.Hour}})
	rome := f.Join("rome")
	stolen := *rome
	ended := make(chan error, 1)
	open := make(chan struct{}, 1000)
	go func() {
		ended <- stolen.Watch(ctx, "", func(api.WatchEvent) error { open <- struct{}{}; return nil })
	}()
	<-open
	if m, err := f.Operator.SetMember(ctx, "rome", "end-certificates"); err != nil || m.Payload.State != api.MemberActive {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := <-ended; err == nil {
		t.Error("the watch ended without a word")
	}
	if what := (thief{&stolen, t, f.URL}).works(); len(what) > 0 {
		t.Errorf("an ended certificate can %v", what)
	}
	if err := rome.Renew(); err != nil {
		t.Fatal(err)
	}
	if _, err := rome.Clusters(ctx); err != nil {
		t.Errorf("with a new certificate: %v", err)
	}
	if what := (thief{&stolen, t, f.URL}).works(); len(what) > 0 {
		t.Errorf("after the renewal an ended certificate can %v", what)
	}
}

// bySocket carries calls as the broker's local socket does.
type bySocket struct{ http.Handler }

func (s bySocket) RoundTrip(r *http.Request) (*http.Response, error) {
	return server.Inside(s.Handler, r.Clone(r.Context())), nil
}

// A stolen certificate of an operator ends by a word on the broker's machine, on open connections
// too, and makes no other one.
func TestAStolenOperatorCertificate(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := tlsid.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Operator.CreateOperator(ctx, request, ""); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("the certificate makes another: %v", err)
	}
	local := client.New("http://socket", &http.Client{Transport: bySocket{f.Server.Operators()}})
	if _, err := local.CreateOperator(ctx, []byte("no request"), ""); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("no request: %v", err)
	}
	if _, err := f.Operator.Members(ctx); err != nil {
		t.Errorf("after what was refused: %v", err)
	}
	made, err := local.CreateOperator(ctx, request, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Operator.Members(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("the stolen one: %v", err)
	}
	next, err := tlsid.NewClient(key, []byte(made.Certificate), []byte(made.CA), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.New(f.URL, f.HTTP(next.Config())).Members(ctx); err != nil {
		t.Errorf("the new one: %v", err)
	}
	if _, err := local.CreateOperator(ctx, nil, ""); err != nil {
		t.Errorf("to end all: %v", err)
	}
	if _, err := client.New(f.URL, f.HTTP(next.Config())).Members(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("the new one, after it was ended: %v", err)
	}
}

// A watch by a former certificate ends after the grace, busy or not; one by the new certificate goes on.
func TestWatchesEndWithTheirCertificate(t *testing.T) {
	clock := transporttest.NewClock()
	f := servertest.Start(t, servertest.Options{Clock: clock, Bounds: server.Bounds{Quiet: 20 * time.Millisecond}})
	rome := f.Join("rome")
	former := *rome
	if err := rome.Renew(); err != nil {
		t.Fatal(err)
	}
	watch := func(m *servertest.Member) (events chan string, ended chan error) {
		events, ended = make(chan string, 10_000), make(chan error, 1)
		go func() {
			ended <- m.Watch(t.Context(), "", func(e api.WatchEvent) error { events <- string(e.Type); return nil })
		}()
		<-events
		return events, ended
	}
	_, formerEnds := watch(&former)
	events, newEnds := watch(rome)
	pass(f, clock, market.CertificateGrace+time.Second)
	if err := <-formerEnds; api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("the former's watch ends with %v", err)
	}
	for len(events) > 0 {
		<-events
	}
	for range 3 { // each check ends with a bookmark
		select {
		case <-events:
		case err := <-newEnds:
			t.Fatalf("the new one's watch ends, too: %v", err)
		}
	}
}
