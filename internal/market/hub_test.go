package market_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// hub is the market of a hub's agent, whose virtual nodes come and go.
type hub struct {
	*node
	nodes  map[string]int64 // CPUs that are Ready, by the provider behind them
	other  int64            // CPUs that are allocated: for plain consumers, and the hub's own pods
	number int64            // of the last measurement
	made   int
}

// measure says what the virtual nodes have now.
func (h *hub) measure() {
	h.number++
	all, sources := int64(0), map[string]api.Resources{}
	for source, cores := range h.nodes {
		all += cores
		sources[source] = api.Resources{"cpu": *resource.NewQuantity(cores, resource.DecimalSI)}
	}
	has := api.Resources{"cpu": *resource.NewQuantity(all, resource.DecimalSI)}
	allocated := api.Resources{"cpu": *resource.NewQuantity(h.other, resource.DecimalSI)}
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: h.number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {
			Capacity: has, Allocatable: has, Allocated: allocated, Shared: has, Sources: sources}}})
	if err == nil {
		err = h.observe("hub", m, noon)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// sell lets a customer ask for a reservation of a size, or for another size of one that it has. What is
// accepted is bound.
func (h *hub) sell(old *market.Reservation, consumer string, cores int64) {
	h.made++
	a := api.Assignment{Reservation: fmt.Sprint("r-", h.made), Generation: 1, Consumer: consumer, Provider: "hub",
		Pool: api.GeneralPool, Until: (noon + 3_600_000).Meta()}
	if old != nil {
		a.Reservation, a.Generation, a.Consumer = old.ID, old.Generation+1, old.Consumer
	}
	document := fmt.Sprint("document ", h.made)
	_, err := h.do(market.Admit{Assignment: a, Size: cpu(cores), Document: document, Acceptance: "yes to " + document,
		BindsUntil: noon + 90_000}, noon)
	if err == nil && (old == nil || !old.Size.Fits(cpu(cores))) {
		h.fits(a.Consumer)
	}
	if err == nil {
		_, err = h.do(market.Commit{ID: a.Reservation, Generation: a.Generation}, noon)
	}
	if err != nil && api.CodeOf(err) != api.CodeInsufficient {
		h.t.Fatal(err)
	}
}

// fits checks that all that is sold fits on the nodes beside what is allocated, and that of each customer on
// the nodes of others, even if all other pods run there.
func (h *hub) fits(buyer string) {
	all, sold, by := -h.other, int64(0), map[string]int64{}
	for _, cores := range h.nodes {
		all += cores
	}
	for _, r := range h.state.All() {
		if r.State.Counts() {
			size := r.Size
			if r.Changing() != nil {
				size = size.Max(r.Change.Size)
			}
			sold += size.Of("cpu") / 1000
			by[r.Consumer] += size.Of("cpu") / 1000
		}
	}
	if sold > all {
		h.t.Fatalf("%d CPUs are sold, and %d are not allocated", sold, all)
	}
	for consumer, has := range by {
		if free := all - h.nodes[consumer] - (sold - has); has > free {
			h.t.Fatalf("%s bought, and %d CPUs are left for the %d of %s: nodes %v, sold %v",
				buyer, free, has, consumer, h.nodes, by)
		}
	}
}

// A hub sells at most what its Ready virtual nodes have when it accepts, less what is allocated. What a customer has always
// fits on nodes that are not the customer's own.
func TestAHubSellsWhatFitsElsewhere(t *testing.T) {
	sources, customers := []string{"rome", "milan", "turin"}, []string{"rome", "milan", "paris", "lyon"}
	rapid.Check(t, func(t *rapid.T) {
		h := &hub{node: newNode(t, "hub"), nodes: map[string]int64{}}
		cores := func(what string) int64 { return rapid.Int64Range(1, 9).Draw(t, what) }
		some := func() *market.Reservation {
			live := slices.DeleteFunc(h.state.All(), func(r *market.Reservation) bool { return !r.Bound() })
			if len(live) == 0 {
				t.Skip("nothing is sold")
			}
			return live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]
		}
		h.measure()
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { h.check() },
			"nodes": func(t *rapid.T) {
				h.nodes[rapid.SampledFrom(sources).Draw(t, "of")] = rapid.Int64Range(0, 20).Draw(t, "nodes")
				maps.DeleteFunc(h.nodes, func(_ string, n int64) bool { return n == 0 })
				h.measure()
			},
			"allocate": func(t *rapid.T) {
				h.other = rapid.Int64Range(0, 9).Draw(t, "allocated")
				h.measure()
			},
			"sell":   func(t *rapid.T) { h.sell(nil, rapid.SampledFrom(customers).Draw(t, "to"), cores("size")) },
			"resize": func(t *rapid.T) { h.sell(some(), "", cores("size")) },
			"end": func(t *rapid.T) {
				r := some()
				for _, c := range []market.Command{market.Release{ID: r.ID, By: r.Consumer, Reason: api.ReasonReleased, Document: "end"},
					market.Free{ID: r.ID, Provider: "hub"}} {
					if _, err := h.do(c, noon); err != nil {
						t.Fatal(err)
					}
				}
			},
		})
	})
}
