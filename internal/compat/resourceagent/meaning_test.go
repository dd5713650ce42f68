package resourceagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// impatient answers a reservation at once.
func impatient(o *resourceagent.Options) { o.Wait = time.Millisecond }

// list polls for what a role has, and returns its IDs and phases.
func (w *testFederation) list(by, role string) map[string]string {
	w.t.Helper()
	var list struct {
		Reservations []struct {
			ID     string
			Status struct{ Phase string }
		}
	}
	status, body := w.call(w.agent(by), "GET", "/api/v1/reservations?clusterID="+by+"&role="+role, "")
	if err := json.Unmarshal([]byte(body), &list); status != http.StatusOK || err != nil {
		w.t.Fatalf("%d %s", status, body)
	}
	out := map[string]string{}
	for _, r := range list.Reservations {
		out[r.ID] = r.Status.Phase
	}
	return out
}

func (w *testFederation) reserveAs(by, body string) (id string, status int) {
	w.t.Helper()
	var made struct{ ID string }
	status, answer := w.call(w.agent(by), "POST", "/api/v1/reservations", body)
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.ID, status
}

// What a new agent reserves of an old one is bound when the old one fetches it, is fetched again
// and again, and is free when it fetches after the end. What it would be changed to is refused.
func TestFetchingAccepts(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1")
	rome := w.member("rome", "1", api.TrustLegacy)
	ctx := context.Background()
	id := must(w.reserves(rome, "2"))(t)
	if r := must(rome.Reservation(ctx, id))(t); r.Payload.State != api.Held || r.Payload.Provider != "cluster-1" {
		t.Fatalf("%+v", r.Payload)
	}
	for range 3 {
		if got := w.list("cluster-1", "provider"); got[id] != "Reserved" || len(got) != 1 {
			t.Fatal(got)
		}
	}
	r := must(rome.Reservation(ctx, id))(t)
	if r.Payload.State != api.Reserved || r.Payload.Acceptance == "" {
		t.Fatalf("%+v", r.Payload)
	}
	bigger := rome.Assignment(transport.Reservation(r))
	bigger.Generation, bigger.Resources = 2, api.Resources{"cpu": *r.Payload.Resources.Cpu()}
	bigger.Until.Time = bigger.Until.Add(time.Hour)
	if _, err := rome.Confirm(ctx, id, rome.Sign(api.DocumentAssignment, bigger)); err != nil {
		t.Fatal(err)
	}
	w.list("cluster-1", "provider")
	if r = must(rome.Reservation(ctx, id))(t); r.Payload.Change == nil ||
		r.Payload.Change.Reason != api.ReasonPolicy || r.Payload.State != api.Reserved {
		t.Errorf("%+v", r.Payload.Change)
	}
	end := rome.Sign(api.DocumentEnd, api.End{Protocol: api.Protocol, Reservation: id,
		Assignment: clusterkey.Digest(r.Payload.Assignment).String(), Generation: 2, By: "rome", Consumer: "rome", Provider: "cluster-1", Reason: api.ReasonReleased})
	if _, err := rome.Release(ctx, id, end); err != nil {
		t.Fatal(err)
	}
	if r = must(rome.Reservation(ctx, id))(t); r.Payload.State != api.Releasing {
		t.Fatalf("%+v", r.Payload.State)
	}
	if got := w.list("cluster-1", "provider"); len(got) != 0 {
		t.Error(got)
	}
	if r = must(rome.Reservation(ctx, id))(t); r.Payload.State != api.Released {
		t.Errorf("%+v", r.Payload.State)
	}
}

// An agent of the successor asks again and again who could serve it, and moves to the first one. The provider that it
// names stays first, also where its own reservation leaves no room for another one.
func TestEvaluationsKeepTheCurrentProvider(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2", "cluster-3")
	candidates := func(body string) (all []string) {
		t.Helper()
		var out struct {
			CandidateClusters []struct{ ClusterID, Information string }
		}
		status, answer := w.call(w.agent("cluster-1"), "POST", "/api/v1/evaluations", body)
		if err := json.Unmarshal([]byte(answer), &out); status != http.StatusOK || err != nil {
			t.Fatalf("%d %s", status, answer)
		}
		for _, c := range out.CandidateClusters {
			all = append(all, c.ClusterID+": "+c.Information)
		}
		return all
	}
	if _, status := w.reserveAs("cluster-1", `{"requestedResources":{"cpu":"6","memory":"1Gi"},"targetClusterID":"cluster-2"}`); status != http.StatusAccepted {
		t.Fatal(status)
	}
	w.list("cluster-2", "provider") // accepts it
	for _, c := range []struct{ body, first string }{
		{`"requestedResources":{"cpu":"6","memory":"1Gi"}`, "cluster-3: score"},
		{`"requestedResources":{"cpu":"6","memory":"1Gi"},"currentProviderID":"cluster-2","measuredLatencyMs":3.5`,
			"cluster-2: serves you now, with what you have reserved there, 3.5 ms away as you measured"},
		{`"requestedResources":{"cpu":"1","memory":"1Gi"},"currentProviderID":"cluster-2"`, "cluster-2: score"},
		{`"requestedResources":{"cpu":"7","memory":"1Gi"},"currentProviderID":"cluster-2"`, "cluster-3: score"},
		{`"requestedResources":{"cpu":"6","memory":"1Gi"},"currentProviderID":"nobody"`, "cluster-3: score"},
	} {
		if got := candidates("{" + c.body + "}"); len(got) == 0 || !strings.HasPrefix(got[0], c.first) {
			t.Errorf("%s: %q", c.body, got)
		}
	}
	status, answer := w.call(w.agent("cluster-1"), "POST", "/api/v1/evaluations",
		`{"requestedResources":{"cpu":"1"},"measuredLatencyMs":-1}`)
	if status != http.StatusBadRequest || !strings.Contains(answer, "measuredLatencyMs") {
		t.Errorf("%d %s", status, answer)
	}
}

// What the agent calls available bounds what is shared: a part of what it has, or what it has less
// what it was instructed. The broker's own count holds, for any value that it sends as reserved.
func TestAvailableBoundsWhatIsShared(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2")
	available := func() string {
		q := w.Exchange.View().Listing("cluster-2").Pool(api.GeneralPool).Available.Resources()["cpu"]
		return q.String()
	}
	say := func(allocatable, available string) {
		t.Helper()
		lie := strings.Replace(advert("cluster-2", allocatable, available), `"available"`, `"reserved":{"cpu":"-5000","memory":"0"},"available"`, 1)
		if status, body := w.call(w.agent("cluster-2"), "POST", "/api/v1/advertisements", lie); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	for _, c := range []struct{ allocatable, says, want string }{{"8", "8", "8"},
		{"8", "3", "3"}, {"8", "100", "8"}, {"8", "-2", "0"}, {"8", "8", "8"}} {
		if say(c.allocatable, c.says); available() != c.want {
			t.Errorf("of %s it says %s: %s are available, want %s", c.allocatable, c.says, available(), c.want)
		}
	}
	id, _ := w.reserveAs("cluster-1", `{"requestedResources":{"cpu":"3"},"targetClusterID":"cluster-2"}`)
	if w.list("cluster-2", "provider")[id] != "Reserved" || available() != "5" {
		t.Fatal(available())
	}
	say("8", "5") // its count and ours have the same three: it errs low
	if available() != "2" {
		t.Error(available())
	}
	if _, status := w.reserveAs("cluster-1", `{"requestedResources":{"cpu":"3"},"targetClusterID":"cluster-2"}`); status != http.StatusConflict {
		t.Error(status)
	}
	w.clock.more.Add(int64(market.Lease))
	if available() != "2" {
		t.Errorf("%s are available after the time alone, want 2", available())
	}
	if say("8", "5"); available() != "5" {
		t.Errorf("%s are available after the next advertisement, want 5", available())
	}
}

// Many at once never get more than there is.
func TestNothingIsSoldTwice(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2", "cluster-3")
	var all sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for i := range 24 {
		by := w.agent(fmt.Sprintf("cluster-%d", 1+i%2))
		all.Go(func() {
			status, body := w.call(by, "POST", "/api/v1/reservations", `{"requestedResources":{"cpu":"1"},"targetClusterID":"cluster-3"}`)
			mu.Lock()
			defer mu.Unlock()
			switch status {
			case http.StatusAccepted:
				got++
			case http.StatusConflict:
			default:
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if bound := w.list("cluster-3", "provider"); got != 8 || len(bound) != 8 {
		t.Errorf("%d were made and %d are bound, of 8", got, len(bound))
	}
}

// The same key makes one reservation.
func TestIdempotencyKey(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2")
	ids := map[string]bool{}
	for range 3 {
		request := must(http.NewRequest("POST", w.URL+"/api/v1/reservations", strings.NewReader(`{"requestedResources":{"cpu":"1"}}`)))(t)
		request.Header.Set("Idempotency-Key", "mine")
		request.Header.Set("Content-Type", "application/json")
		answer := must(w.agent("cluster-1").Do(request))(t)
		var made struct{ ID string }
		if err := json.NewDecoder(answer.Body).Decode(&made); err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		ids[made.ID] = true
	}
	if len(ids) != 1 {
		t.Error(ids)
	}
}

// A cluster that gets an agent with a key joins by a token that names it, and is no legacy member
// any more; callers with its old subject are refused. A token without a cluster ID is not enough.
func TestAnOwnKey(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1")
	submission := func(cluster string) error {
		m := w.member("oslo-"+fmt.Sprint(time.Now().UnixNano()), "1", "")
		party := *m.Party
		party.ID = "cluster-1"
		m.Party = &party
		_, err := w.Stranger().Join(context.Background(), m.Submission(w.Token(cluster), tlsKey(t)))
		return err
	}
	if err := submission(""); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("by a token for anybody: %v", err)
	}
	if err := submission("cluster-1"); err != nil {
		t.Fatal(err)
	}
	if l := w.Exchange.View().Listing("cluster-1"); l.Member.Legacy ||
		l.Member.Card != nil || l.Member.State != api.MemberActive {
		t.Errorf("%+v", l.Member)
	}
	w.refused(attempt{"its old agent", w.agent("cluster-1"), "POST",
		"/api/v1/advertisements", advert("cluster-1", "8", "8"), http.StatusForbidden})
}

// A page of another site, in the browser of somebody whose certificate is there, cannot choose in its name.
func TestOtherSitesDoNotChoose(t *testing.T) {
	w := newTestFederation(t)
	w.member("milan", "8", "")
	rome := w.member("rome", "1", "")
	for from, want := range map[string]int{"cross-site": http.StatusForbidden,
		"same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK} {
		request := must(http.NewRequest("GET", w.URL+"/api/toggle?id=milan&enable=true", nil))(t)
		request.Header.Set("Sec-Fetch-Site", from)
		answer := must(rome.HTTP.Do(request))(t)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("from %s: %d", from, answer.StatusCode)
		}
	}
}

// An agent of a prototype reads `error` for every error.
func TestErrorsOfThePrototypes(t *testing.T) {
	w := newTestFederation(t)
	w.approved("cluster-1")
	other := w.showing(servertest.NewSubjectCA(t).Issue(t, "cluster-1"))
	for _, c := range []struct {
		by                 *http.Client
		method, path, body string
		status             int
		says               string
	}{
		{w.agent("nobody"), "GET", "/api/v1/instructions", "", http.StatusUnauthorized, "docs/migrate.md"},
		{w.agent("cluster-1"), "GET", "/api/v1/nothing", "", http.StatusNotFound, "there is no"},
		{w.agent("cluster-1"), "POST", "/healthz", "", http.StatusNotFound, "there is no"},
		{w.agent("cluster-1"), "POST", "/api/v1/evaluations", `{"requestedResources":{"cpu":"x"}}`, http.StatusBadRequest, "quantity"},
	} {
		status, answer := w.call(c.by, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.says) ||
			!strings.Contains(answer, `"error":`) || strings.Contains(answer, "--join") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, answer)
		}
	}
	if answer, err := other.Get(w.URL + "/api/v1/instructions"); err == nil { // or the handshake fails
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a certificate of an unknown CA: %d", answer.StatusCode)
		}
	}
}

// A member with Liqo can borrow from a cluster of a prototype. Its admin peers the two by hand, so
// the broker does not compare their versions of Liqo.
func TestAMemberWithLiqoBorrowsFromAPrototype(t *testing.T) {
	w := newTestFederation(t)
	w.approved("cluster-1")
	rome := w.member("rome", "1", api.TrustLegacy)
	rome.ShowCard(api.Properties{Liqo: "1.2.0"})
	request := transporttest.Request("4")
	request.Target = "cluster-1"
	r, err := rome.Reserve(t.Context(), "", request)
	if err != nil || r.Payload.State != api.Held || r.Payload.Provider != "cluster-1" {
		t.Errorf("%+v, %v", r.Payload, err)
	}
}

// The successor's agent takes every success for a reservation, so it gets an error for what its
// provider has not accepted; nothing of it stays.
func TestWhatIsNotAcceptedIsNotReserved(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2")
	answer, err := w.agent("cluster-1").Post(w.URL+"/api/v1/reservations", "application/json", strings.NewReader(`{"requestedResources":{"cpu":"8"},"targetClusterID":"cluster-2"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusConflict {
		t.Errorf("%s", answer.Status)
	}
	if held := w.list("cluster-2", "provider"); len(held) != 0 {
		t.Errorf("the provider is instructed: %v", held)
	}
	if _, status := w.reserveAs("cluster-1", `{"requestedResources":{"cpu":"8"},"targetClusterID":"cluster-2"}`); status != http.StatusAccepted {
		t.Errorf("the same again: %d", status)
	}
}
