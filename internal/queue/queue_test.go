package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// federation is a market of clusters c0, c1, ... that advertise 1 CPU each, and its queue.
type federation struct {
	*Queue
	t      *testing.T
	number int64
}

func newFederation(t *testing.T, clusters int) *federation {
	x := exchangetest.Open(t, nil, exchange.Options{TickEvery: time.Millisecond})
	f := &federation{Queue: New(x, match.New(), slog.New(slog.DiscardHandler)), t: t}
	for i := range clusters {
		name := fmt.Sprintf("c%d", i)
		f.do(market.Enroll{Cluster: name, Key: "k-" + name})
		f.do(market.SetMember{Cluster: name, State: api.MemberActive})
		f.do(market.PutCard{Card: api.Card{Cluster: name, Key: "k-" + name, Number: 1}, Signed: "card"})
		f.advertise(name, "1")
	}
	return f
}

func (f *federation) do(c market.Command) {
	f.t.Helper()
	if _, err := f.Market.Do(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

func (f *federation) advertise(cluster, cpu string) {
	f.t.Helper()
	f.number++
	r := api.Resources{"cpu": resource.MustParse(cpu)}
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: f.number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: r, Allocatable: r, Shared: r}}})
	if err == nil {
		err = f.Market.Observe(f.t.Context(), cluster, m, true)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// pend makes a request of c0 that waits.
func (f *federation) pend(id, cpu string) {
	f.t.Helper()
	ask, err := f.Engine.Ask("c0", api.Request{Resources: api.Resources{"cpu": resource.MustParse(cpu)},
		Wait: &metav1.Duration{Duration: time.Hour}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.do(&market.Hold{ID: id, Consumer: "c0", Request: &ask.Request,
		Pool: api.GeneralPool, Size: ask.Size, Duration: ask.Duration, Decision: &api.Decision{}})
}

func (f *federation) state(id string) (s api.State) {
	_ = f.Market.Read(f.t.Context(), func(m *market.State) { s = m.Reservation(id).State })
	return s
}

// states demands the states of requests.
func (f *federation) states(want map[string]api.State) {
	f.t.Helper()
	for id, state := range want {
		if got := f.state(id); got != state {
			f.t.Errorf("%s is %s, want %s", id, got, state)
		}
	}
}

func (f *federation) check() {
	f.t.Helper()
	if err := f.look(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// What comes free after the first request of the line was decided belongs to that request, not to the next one.
func TestCapacityThatComesFreeDuringACheck(t *testing.T) {
	f := newFederation(t, 2)
	f.pend("first", "3")
	time.Sleep(2 * time.Millisecond) // of two that are of the same one, neither is first
	f.pend("second", "2")
	f.notice()
	f.left = budget
	must(t, f.read(t.Context()))
	_, err := f.try(t.Context(), f.line[0])
	must(t, err)
	f.advertise("c1", "4")
	must(t, f.serve(t.Context()))
	f.states(map[string]api.State{"first": api.Pending, "second": api.Pending})
	f.check()
	f.states(map[string]api.State{"first": api.Held, "second": api.Pending})
}

// A request that is served renews the view of a check. What came free until then is offered from the front.
func TestCapacityThatComesFreeBesideAServedRequest(t *testing.T) {
	f := newFederation(t, 3)
	f.advertise("c1", "2")
	for _, r := range [][2]string{{"large", "4"}, {"served", "2"}, {"small", "2"}} {
		f.pend(r[0], r[1])
		time.Sleep(2 * time.Millisecond)
	}
	f.Log = slog.New(onHeld{slog.DiscardHandler, func() {
		if f.state("large") == api.Pending {
			f.advertise("c2", "5")
		}
	}})
	f.check()
	f.states(map[string]api.State{"large": api.Held, "served": api.Held, "small": api.Pending})
}

// onHeld is a log that calls do for each message.
type onHeld struct {
	slog.Handler
	do func()
}

func (onHeld) Enabled(context.Context, slog.Level) bool { return true }

func (l onHeld) Handle(context.Context, slog.Record) error { l.do(); return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A long queue is gone through a piece at a time, and nobody in it is forgotten: who fits is found
// wherever it stands, and the look that finds nothing costs no more than its budget.
func TestALongQueue(t *testing.T) {
	const waiting, clusters = 3000, 200
	q := newFederation(t, clusters)
	for i := range waiting {
		q.pend(fmt.Sprintf("r%d", i), "100")
	}
	q.pend("small", "2") // the youngest
	looks := 0
	look := func(until func() bool) {
		t.Helper()
		for ; !until(); looks++ {
			if looks > 1000 {
				t.Fatal("it is never found")
			}
			q.check()
			if q.left < -keepTries*clusters-clusters-suits {
				t.Fatalf("a look cost %d more than its budget", -q.left)
			}
		}
	}
	look(func() bool { return len(q.line) == waiting+1 && q.line[waiting].tried })
	if looks < 3 {
		t.Errorf("all were decided in %d looks", looks)
	}
	q.advertise("c7", "2")
	look(func() bool { return q.state("small") == api.Held })
	if q.Kept(100) != "" {
		t.Errorf("%s is kept, though none is large enough", q.Kept(100))
	}
	q.advertise("c9", "100")
	look(func() bool { return q.state("r0") == api.Held })
	if q.state("r1") != api.Pending {
		t.Error("two are where one fits")
	}
	q.sought = 0
	look(func() bool { return q.Kept(0) == "c9" }) // for the next
	if q.Kept(1) != "" {
		t.Error("it is kept from who stands before the first")
	}
	all := map[string]int{}
	_ = q.Market.Read(t.Context(), func(m *market.State) {
		for _, r := range m.Waiting() {
			all[r.ID]++
			if d := m.Why(r.ID).Decision(); d == nil || d.Considered == 0 {
				t.Fatalf("%s has no explanation", r.ID)
			}
		}
	})
	if len(all) != waiting-1 {
		t.Errorf("%d wait", len(all))
	}
}

// A provider that cannot be reached from the consumer is offered again: the cause passes by itself. It is not offered
// so often that the refusals end the waiting.
func TestAProviderThatCouldNotBeReached(t *testing.T) {
	f := newFederation(t, 3)
	f.advertise("c1", "2")
	f.pend("waits", "2")
	pass := func(d time.Duration, want api.State) {
		t.Helper()
		f.known["waits"].since -= market.Time(d.Milliseconds())
		f.sought = 0
		f.check()
		f.states(map[string]api.State{"waits": want})
	}
	refuse := func(generation int64, reason api.Reason) {
		t.Helper()
		f.do(market.Refuse{ID: "waits", By: "c0", Generation: generation, Reason: reason})
		f.check()
		f.states(map[string]api.State{"waits": api.Pending})
	}
	f.check()
	for refusals := range int64(4) {
		f.states(map[string]api.State{"waits": api.Held})
		refuse(1+refusals, api.ReasonUnreachable)
		pass(restAfter<<refusals-time.Minute/2, api.Pending)
		if kept := f.Kept(0); kept != "" {
			t.Errorf("%s is kept for a request that cannot use it", kept)
		}
		pass(time.Minute/2, api.Held)
	}
	refuse(5, api.ReasonPolicy) // the cause does not pass by itself
	pass(24*time.Hour, api.Pending)
}
