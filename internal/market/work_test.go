package market_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// A lease that is renewed without news costs the owner the same, however much was advertised; so
// does showing it, where only members are shown what they have.
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
			next, err := last.Change(api.MeasurementDelta{Base: last.Sequence,
				Sequence: api.Sequence{Incarnation: last.Sequence.Incarnation, Number: int64(i + 2)}})
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
	d := newTestBroker(t)
	if err := d.observe("rome", sold(t, 2, 20, 3), d.now); err != nil {
		t.Fatal(err)
	}
	if n := d.state.Imbalance(); n != 0 {
		t.Errorf("%d differ", n)
	}
}

// listing is the JSON of an advertisement of n commitments by so many consumers, each of these
// resources, as sold of a plan or not.
func listing(n, consumers int, size api.Resources, isSold bool) []byte {
	accounts := map[string]api.AccountUse{}
	for i := range consumers {
		accounts[fmt.Sprintf("consumer-%d", i)] = api.AccountUse{Commitments: map[string]api.Resources{},
			Sold: map[string]api.SoldUnits{}}
	}
	for i := range n {
		a, id := accounts[fmt.Sprintf("consumer-%d", i%consumers)], fmt.Sprintf("r-%d", i)
		if a.Commitments[id] = size; isSold {
			a.Sold[id] = api.SoldUnits{Offer: "o", Plan: "p", Units: 1}
		}
	}
	data, err := json.Marshal(measurement(map[string]api.Pool{"general": {Accounts: accounts}}))
	if err != nil {
		panic(err)
	}
	return data
}

// Any accepted advertisement takes less than 16 MiB of memory. One with 10,000 reservations is accepted.
func TestBytesOfAnAdvertisement(t *testing.T) {
	measure := func(data []byte) (*market.Measured, error) {
		var m api.Measurement
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		return market.Measure(m)
	}
	few := resources("cpu", "2", "memory", "4Gi", "pods", "10", "ephemeral-storage", "20Gi")
	if _, err := measure(listing(10_000, 1000, few, true)); err != nil {
		t.Errorf("an honest provider: %v", err)
	}
	many := api.Resources{}
	for i := range 60 {
		many[corev1.ResourceName(fmt.Sprintf("r%02d", i))] = resource.MustParse("1")
	}
	for name, of := range map[string]func(n int) []byte{
		"commitments":                     func(n int) []byte { return listing(n, 1, resources("cpu", "1"), false) },
		"commitments that are sold":       func(n int) []byte { return listing(n, 1, resources("cpu", "1"), true) },
		"commitments of nothing":          func(n int) []byte { return listing(n, 1, nil, true) },
		"commitments of many resources":   func(n int) []byte { return listing(n, 1, many, false) },
		"accounts with a commitment each": func(n int) []byte { return listing(n, n, resources("cpu", "1"), true) },
		"accounts":                        func(n int) []byte { return listing(0, n, nil, false) },
	} {
		n, data := 4000, of(4000)
		for { // as many as are taken, but for a quarter
			more := of(n * 5 / 4)
			if _, err := measure(more); err != nil || len(more) > 8<<20 {
				break
			}
			n, data = n*5/4, more
		}
		before := alive()
		s := market.New("")
		m, err := measure(data)
		if err == nil {
			err = s.Observe("rome", m, noon, true)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kept := alive() - before
		runtime.KeepAlive(s)
		runtime.KeepAlive(data)
		t.Logf("%d %s: %d KiB of JSON, %d KiB kept", n, name, len(data)>>10, kept>>10)
		if kept > 16<<20 {
			t.Errorf("%d %s keep %d MiB", n, name, kept>>20)
		}
	}
}

// alive is how many bytes of the heap are in use.
func alive() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
