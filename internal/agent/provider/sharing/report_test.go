package sharing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// A broker's report names no consumer, reservation or private offer that the broker does not know. What is
// left there is exactly what is left at the gate, so that nothing is sold twice: also where the broker has
// records of its own, and the sold units of each plan.
func TestReportsNameOnlyWhatABrokerKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeasured(t)
		gate := m.reportTo(nil)
		for _, via := range []string{"", "broker/north"} {
			knows := func(r *market.Reservation) bool { return r.Via == via }
			report := m.reportTo(&transport.Outlet{Via: via, Knows: knows})
			wire := must(json.Marshal(report))(t)
			named := map[string]bool{}
			for _, r := range m.accepted {
				named[r.Consumer] = named[r.Consumer] || knows(r)
				if !knows(r) && strings.Contains(string(wire), `"`+r.ID+`"`) {
					t.Fatalf("the broker of route %q reads of %s: %s", via, r.ID, wire)
				}
			}
			if rest := report.Pools[api.GeneralPool].Elsewhere; rest != nil && strings.Contains(fmt.Sprint(rest.Sold), "only-") {
				t.Fatalf("the broker of route %q reads who may buy what was sold elsewhere: %+v", via, rest)
			}
			for _, consumer := range consumers {
				if !named[consumer] && strings.Contains(string(wire), consumer) {
					t.Fatalf("the broker of route %q reads of %s: %s", via, consumer, wire)
				}
			}
			if got, want := publicUnits(report), publicUnits(gate); got != want {
				t.Fatalf("the broker of route %q counts %d units as sold, and %d are: %s", via, got, want, wire)
			}
			own := market.New("")
			for _, r := range m.accepted {
				if knows(r) && rapid.Bool().Draw(t, "held") {
					held := *r
					own.Apply(market.Event{Reservation: &market.ReservationEvent{Reservation: &held}})
				}
			}
			if got, want := left(t, own, report), left(t, market.New(""), gate); got != want {
				t.Fatalf("at the broker of route %q %s, at the gate %s: %s", via, got, want, wire)
			}
		}
	})
}

// A broker that the SharingPolicy does not name gets what it knows, and nothing else.
func TestReportWhereNothingIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeasured(t)
		m.Brokers = []string{"north"}
		all := m.reportTo(&transport.Outlet{Via: "", Knows: func(r *market.Reservation) bool { return r.Via == "" }})
		listed := 0
		for name, pool := range all.Pools {
			for _, account := range pool.Accounts {
				listed += len(account.Commitments)
			}
			if pool.Accounts = nil; fmt.Sprint(pool) != fmt.Sprint(api.Pool{}) {
				t.Fatalf("it is shown pool %s: %+v", name, pool)
			}
		}
		made := 0
		for _, r := range m.accepted {
			if r.Via == "" {
				made++
			}
		}
		if all.Terms != nil || listed != made {
			t.Fatalf("terms %v, and %d of %d reservations that were made there", all.Terms, listed, made)
		}
		for _, via := range []string{"broker/north", "milan"} {
			knows := func(r *market.Reservation) bool { return r.Via == via }
			shown := m.reportTo(&transport.Outlet{Via: via, Knows: knows})
			if shown.Terms == nil || len(shown.Pools) == 0 {
				t.Fatalf("at %s nothing is shared", via)
			}
		}
	})
}

// The units of a plan that are sold elsewhere are at most as many as a plan can have.
func TestReportOfManyUnits(t *testing.T) {
	m := &measured{Measurement: api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1}}}
	for i := range 3 {
		m.accepted = append(m.accepted, &market.Reservation{ID: fmt.Sprintf("r-%d", i), Consumer: "anna", Pool: "former",
			Offer: &market.Offer{Signed: &api.SignedOffer{Name: "web"}}, Sale: &api.Sale{Plan: "small", Units: 600_000}})
	}
	report := m.reportTo(&transport.Outlet{Knows: func(*market.Reservation) bool { return false }})
	if _, err := market.Measure(report); err != nil {
		t.Error(err)
	}
	sold := report.Pools["former"].Elsewhere.Sold
	if len(sold) != 1 || sold[0].Units != api.MaxUnits {
		t.Errorf("sold elsewhere are %+v", sold)
	}
}

var consumers = []string{"anna", "bert", "carl", "dora"}

// drawMeasured is milan's measurement, with reservations that were made at two brokers and its connector.
func drawMeasured(t *rapid.T) *measured {
	cpus := func(from, to int64) api.Resources {
		n := rapid.Int64Range(from, to).Draw(t, "cpu")
		return api.Resources{"cpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	pool := api.Pool{Capacity: cpus(10, 20), Allocatable: cpus(5, 20), Shared: cpus(1, 20), Accounts: map[string]api.AccountUse{}}
	for _, consumer := range rapid.SliceOfDistinct(rapid.SampledFrom(consumers), rapid.ID).Draw(t, "users") {
		use := cpus(0, 9)
		use["example.com/unshared"] = resource.MustParse("3")
		pool.Accounts[consumer] = api.AccountUse{Used: use}
	}
	m := &measured{Measurement: api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: pool}}}
	for i := range rapid.IntRange(0, 8).Draw(t, "reservations") {
		size := must(amounts.ParseCapacity("", cpus(0, 6)))(t)
		r := &market.Reservation{ID: fmt.Sprintf("r-%d", i), Consumer: rapid.SampledFrom(consumers).Draw(t, "consumer"),
			Provider: "milan", Pool: rapid.SampledFrom([]string{api.GeneralPool, "former"}).Draw(t, "pool"), Size: size,
			State: api.Reserved, Via: rapid.SampledFrom([]string{"", "broker/north", "milan"}).Draw(t, "via")}
		offer := &market.Offer{Signed: &api.SignedOffer{Name: "web"}}
		switch rapid.SampledFrom([]string{"none", "public", "private"}).Draw(t, "offer") {
		case "private":
			offer.Signed.Name = "only-" + r.Consumer
			offer.Signed.Offer.VisibleTo.Clusters = []string{r.Consumer}
			fallthrough
		case "public":
			r.Offer, r.Sale = offer, &api.Sale{Plan: "small", Units: rapid.Int64Range(1, 3).Draw(t, "units")}
		}
		m.accepted = append(m.accepted, r)
	}
	return m
}

// publicUnits is how many units of the public offer a report says are sold in the pool that is shared.
func publicUnits(m api.Measurement) (n int64) {
	pool := m.Pools[api.GeneralPool]
	for _, account := range pool.Accounts {
		for _, s := range account.Sold {
			if s.Offer == "web" {
				n += s.Units
			}
		}
	}
	if pool.Elsewhere != nil {
		for _, s := range pool.Elsewhere.Sold {
			n += s.Units
		}
	}
	return n
}

// left is what a market says of the shared pool once it has a report.
func left(t *rapid.T, s *market.State, report api.Measurement) string {
	if err := s.Observe("milan", must(market.Measure(report))(t), 1, true); err != nil {
		t.Fatal(err)
	}
	p := s.Publish(nil).Listing("milan").Pool(api.GeneralPool)
	reserved, available := p.Reserved.Beyond(nil).Resources(), p.Available.Resources()
	if s.Imbalance() != 0 {
		t.Fatal("the books do not agree")
	}
	return fmt.Sprintf("%s is reserved, %s is left, anybody has something: %t", must(json.Marshal(reserved))(t),
		must(json.Marshal(available))(t), p.Tenants > 0)
}

func must[T any](v T, err error) func(*rapid.T) T {
	return func(t *rapid.T) T {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
