package queue

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// An advertisement without news, or with less capacity, wakes nobody. Every change that may let a request through
// does.
func TestMore(t *testing.T) {
	now := market.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	cpu := func(cores string) api.Pool {
		r := api.Resources{"cpu": resource.MustParse(cores)}
		return api.Pool{Capacity: r, Allocatable: r, Shared: r}
	}
	for name, c := range map[string]struct {
		next  api.Measurement
		after time.Duration
		do    func(*market.State)
		want  bool
	}{
		"the same": {next: api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("8")}}},
		"less":     {next: api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("7")}}},
		"nothing":  {next: api.Measurement{}},
		"more": {next: api.Measurement{Terms: &api.Terms{},
			Pools: map[string]api.Pool{"general": cpu("9")}}, want: true},
		"another pool": {next: api.Measurement{Terms: &api.Terms{},
			Pools: map[string]api.Pool{"general": cpu("8"), "gpu": cpu("1")}}, want: true},
		"other terms": {next: api.Measurement{Terms: &api.Terms{OnlyOffers: true},
			Pools: map[string]api.Pool{"general": cpu("8")}}, want: true},
		"back": {next: api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("8")}},
			after: 2 * market.Lease, want: true},
		"another standing": {next: api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("8")}},
			want: true, do: func(s *market.State) {
				s.Apply(market.Event{Time: now, Member: &market.Member{Cluster: "milan",
					State: api.MemberActive, Key: "k", Card: &api.Card{Cluster: "milan"}}})
			}},
		"no member any more": {next: api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("9")}},
			do: func(s *market.State) {
				s.Apply(market.Event{Time: now, Member: &market.Member{Cluster: "milan", State: api.MemberSuspended, Key: "k"}})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := market.New("")
			observe := func(m api.Measurement, number int64, at market.Time) {
				m.Sequence = api.Sequence{Incarnation: 1, Number: number}
				measured, err := market.Measure(m)
				if err == nil {
					err = s.Observe("milan", measured, at, true)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s.Apply(market.Event{Time: now, Member: &market.Member{Cluster: "milan", State: api.MemberActive, Key: "k"}})
			observe(api.Measurement{Terms: &api.Terms{}, Pools: map[string]api.Pool{"general": cpu("8")}}, 1, now)
			before := s.Publish(nil)
			later := now + market.Time(c.after.Milliseconds())
			observe(c.next, 2, later)
			if c.do != nil {
				c.do(s)
			}
			after := s.Publish(before)
			changed := 0
			after.Changed(before, func(slot int) {
				changed++
				if got := more(before.At(slot), after.At(slot), later); got != c.want {
					t.Errorf("more: %v", got)
				}
			})
			if changed != 1 {
				t.Errorf("%d changed", changed)
			}
			after.Changed(after, func(int) { t.Error("a view differs from itself") })
		})
	}
}
