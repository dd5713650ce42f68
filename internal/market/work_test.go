package market_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// allocated is how many bytes a piece of work allocates.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// linear checks that four times as much takes at most about four times the work, as far as it allocates.
func linear(t *testing.T, n int, work func(t *testing.T, n int) func()) {
	t.Helper()
	few, many := allocated(work(t, n)), allocated(work(t, 4*n))
	if many > 8*max(few, 1<<16) {
		t.Errorf("%d take %d KiB, and %d take %d KiB", n, few>>10, 4*n, many>>10)
	}
}

// sold is an advertisement of n commitments, each of another plan and by one of so many consumers.
func sold(t *testing.T, number int64, n, consumers int) *market.Measured {
	t.Helper()
	accounts := map[string]api.AccountUse{}
	for i := range n {
		consumer := fmt.Sprint("c", i%consumers)
		a := accounts[consumer]
		if a.Commitments == nil {
			a = api.AccountUse{Commitments: map[string]api.Resources{}, Sold: map[string]api.SoldUnits{}}
		}
		id := fmt.Sprint("r", i)
		a.Commitments[id] = resources("cpu", "1m")
		a.Sold[id] = api.SoldUnits{Offer: fmt.Sprint("o", i/16), Plan: fmt.Sprint("p", i%16), Units: 1}
		accounts[consumer] = a
	}
	all := resources("cpu", "1000")
	m := measurement(map[string]api.Pool{"general": {Allocatable: all, Shared: all, Accounts: accounts}})
	m.Sequence.Number = number
	m.Terms = &api.Terms{MaxPerConsumer: resources("cpu", "100")}
	out, err := market.Measure(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What the owner does for one advertisement is linear in it.
func TestWorkOfAnAdvertisement(t *testing.T) {
	linear(t, 1000, func(t *testing.T, n int) func() {
		s, m := market.New(""), sold(t, 1, n, 10)
		return func() {
			if err := s.Observe("rome", m, noon, true); err != nil {
				t.Fatal(err)
			}
			s.Publish(nil)
		}
	})
	linear(t, 1000, func(t *testing.T, n int) func() { // and taking it all back
		s, m := market.New(""), sold(t, 1, n, 10)
		if err := s.Observe("rome", m, noon, true); err != nil {
			t.Fatal(err)
		}
		view, none := s.Publish(nil), sold(t, 2, 0, 1)
		return func() {
			if err := s.Observe("rome", none, noon, true); err != nil {
				t.Fatal(err)
			}
			s.Publish(view)
		}
	})
}

// A lease that is renewed without news costs the owner the same, however much was advertised; so does showing it, where only
// members are shown what they have.
func TestWorkOfARenewal(t *testing.T) {
	cost := func(n int) uint64 {
		s := market.New("")
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: "c1", State: api.MemberActive}})
		if err := s.Observe("rome", sold(t, 1, n, n), noon, true); err != nil {
			t.Fatal(err)
		}
		view := s.Publish(nil)
		if got := view.Listing("rome").Pools[0].Accounts; len(got) != 1 || got["c1"].Of("cpu") != 1 {
			t.Errorf("shown: %v", got)
		}
		var renewals []*market.Measured
		last := view.Listing("rome").Measured
		for i := range 100 {
			next, err := last.Change(api.MeasurementDelta{Base: last.Sequence, Sequence: api.Sequence{Incarnation: last.Sequence.Incarnation, Number: int64(i + 2)}})
			if err != nil {
				t.Fatal(err)
			}
			renewals, last = append(renewals, next), next
		}
		return allocated(func() {
			for _, m := range renewals {
				if err := s.Observe("rome", m, noon, true); err != nil {
					t.Fatal(err)
				}
				view = s.Publish(view)
			}
		})
	}
	if few, many := cost(100), cost(4000); many > 2*max(few, 1<<20) {
		t.Errorf("100 renewals allocate %d KiB with 100 accounts, and %d KiB with 4000", few>>10, many>>10)
	}
}

// What a seller lists and the broker does not know is counted once, by the audit, too.
func TestAuditOfListedSales(t *testing.T) {
	d := newDesk(t)
	if err := d.observe("rome", sold(t, 2, 20, 3), d.now); err != nil {
		t.Fatal(err)
	}
	if n := d.state.Imbalance(); n != 0 {
		t.Errorf("%d differ", n)
	}
}
