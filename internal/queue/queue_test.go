package queue

import (
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

// A long queue is gone through a piece at a time, and nobody in it is forgotten: who fits is found
// wherever it stands, and the look that finds nothing costs no more than its budget.
func TestALongQueue(t *testing.T) {
	const waiting, clusters = 3000, 200
	ctx, x := t.Context(), exchangetest.Open(t, nil, exchange.Options{TickEvery: time.Millisecond})
	number := int64(0)
	advertise := func(cluster, cpu string) {
		number++
		r := api.Resources{"cpu": resource.MustParse(cpu)}
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
			Pools: map[string]api.Pool{api.GeneralPool: {Capacity: r, Allocatable: r, Shared: r}}})
		if err == nil {
			err = x.Observe(ctx, cluster, m, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	do := func(c market.Command) {
		if _, err := x.Do(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for i := range clusters {
		name := fmt.Sprintf("c%d", i)
		do(market.Enroll{Cluster: name, Key: "k-" + name})
		do(market.SetMember{Cluster: name, State: api.MemberActive})
		do(market.PutCard{Card: api.Card{Cluster: name, Key: "k-" + name, Number: 1}, Signed: "card"})
		advertise(name, "1")
	}
	engine := match.New()
	pend := func(id, cpu string) {
		r := api.Request{Resources: api.Resources{"cpu": resource.MustParse(cpu)},
			Wait: &metav1.Duration{Duration: time.Hour}}
		ask, err := engine.Ask("c0", r)
		if err != nil {
			t.Fatal(err)
		}
		do(&market.Hold{ID: id, Consumer: "c0", Request: &ask.Request,
			Pool: api.GeneralPool, Size: ask.Size, Duration: ask.Duration, Decision: &api.Decision{}})
	}
	for i := range waiting {
		pend(fmt.Sprintf("r%d", i), "100")
	}
	pend("small", "2") // the youngest
	q := New(x, engine, slog.New(slog.DiscardHandler))
	looks := 0
	look := func(until func() bool) {
		t.Helper()
		for ; !until(); looks++ {
			if looks > 1000 {
				t.Fatal("it is never found")
			}
			if err := q.look(ctx); err != nil {
				t.Fatal(err)
			}
			if q.left < -keepTries*clusters-clusters-suits {
				t.Fatalf("a look cost %d more than its budget", -q.left)
			}
		}
	}
	state := func(id string) (s api.State) {
		_ = x.Read(ctx, func(m *market.State) { s = m.Reservation(id).State })
		return s
	}
	look(func() bool { return len(q.line) == waiting+1 && q.line[waiting].tried })
	if looks < 3 {
		t.Errorf("all were decided in %d looks", looks)
	}
	advertise("c7", "2")
	look(func() bool { return state("small") == api.Held })
	if q.Kept(100) != "" {
		t.Errorf("%s is kept, though none is large enough", q.Kept(100))
	}
	advertise("c9", "100")
	look(func() bool { return state("r0") == api.Held })
	if state("r1") != api.Pending {
		t.Error("two are where one fits")
	}
	q.sought = 0
	look(func() bool { return q.Kept(0) == "c9" }) // for the next
	if q.Kept(1) != "" {
		t.Error("it is kept from who stands before the first")
	}
	all := map[string]int{}
	_ = x.Read(ctx, func(m *market.State) {
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
