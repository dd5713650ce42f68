package market_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// alone is rome's offer of a core, in a pool of the buyer's alone or in one that it shares.
func alone(t rapid.TB) *market.Offer {
	t.Helper()
	payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol,
		Seller: "rome", Name: "web", Version: 1, Offer: api.OfferSpec{Plans: []api.Plan{
			{Name: "alone", Resources: resources("cpu", "1"), Dedicated: true, Units: &api.Units{Min: 1, Max: 8}},
			{Name: "shared", Resources: resources("cpu", "1"), Units: &api.Units{Min: 1, Max: 8}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	offer, err := market.ReadOffer("e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln")
	if err != nil {
		t.Fatal(err)
	}
	offer.Digest = "SHA256:web"
	return offer
}

func buying(id, consumer, plan string, units int64) *market.Hold {
	h := request(id, units)
	h.Consumer, h.Candidates = consumer, []string{"rome"}
	if plan != "" {
		h.Sale = &api.Sale{Offer: "SHA256:web", Plan: plan, Units: units}
	}
	return h
}

func TestDedicated(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: alone(t)})
	d.must(buying("shared", "paris", "", 1))
	d.fails(api.CodeInsufficient, buying("no", "milan", "alone", 1)) // somebody else is there
	d.must(buying("own", "paris", "alone", 2))
	d.fails(api.CodeInsufficient, buying("no", "milan", "shared", 1))
	d.fails(api.CodeInsufficient, buying("no", "milan", "", 1))
	if p := d.pool("rome"); p.Owner != "paris" || p.Tenants != 1 || p.Tenant != "paris" {
		t.Errorf("listed as %+v", p)
	}
	d.must(buying("more", "paris", "shared", 1)) // what is its alone, it may have more of
	d.must(market.Release{ID: "own", By: "paris", Generation: 1})
	d.must(buying("again", "milan", "shared", 1))
	d.must(buying("used up", "milan", "", 1))
	for _, id := range []string{"again", "used up", "shared"} {
		d.must(market.Release{ID: id, By: d.state.Reservation(id).Consumer, Generation: 1})
	}
	all := resources("cpu", "8")
	d.reports("rome", 2, all, map[string]api.AccountUse{"oslo": {Used: resources("cpu", "1")}})
	// somebody's pods are there, though nobody reserved anything
	d.fails(api.CodeInsufficient, buying("no", "paris", "alone", 1))
	if d.state.Imbalance() != 0 {
		t.Error("the books are not right")
	}
}

// A gate decides the same, also against the broker's decision.
func TestGateKeepsAlone(t *testing.T) {
	d := newGate(t)
	d.must(market.Publish{Offer: alone(t)})
	sold := func(id, consumer, plan string) market.Admit {
		a := assigned(id, 1, 1, "doc "+id)
		a.Assignment.Consumer = consumer
		if plan != "" {
			a.Assignment.Sale = &api.Sale{Offer: "SHA256:web", Plan: plan, Units: 1}
		}
		return a
	}
	d.must(sold("r", "paris", "alone"))
	d.fails(api.CodeInsufficient, sold("s", "milan", ""))
	d.fails(api.CodeInsufficient, sold("s", "milan", "shared"))
	d.must(sold("t", "paris", ""))
	d.must(market.Release{ID: "r", By: "paris"})
	d.fails(api.CodeInsufficient, sold("s", "milan", "shared")) // it ends, but pods may still be there
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.must(sold("s", "milan", "shared"))
}

// After any purchases, changes and ends, in any order and over restarts, a dedicated pool has one consumer.
func TestAloneIsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, now := newNode(t, ""), noon
		do := func(c market.Command) { _, _ = n.do(c, now); n.check() }
		measure := n.open(resources("cpu", "12"), now)
		do(market.Publish{Offer: alone(t)})
		for i := range int64(rapid.IntRange(5, 60).Draw(t, "acts")) {
			var r *market.Reservation
			if all := n.state.All(); len(all) > 0 {
				r = rapid.SampledFrom(all).Draw(t, "reservation")
			}
			switch act := rapid.IntRange(0, 8).Draw(t, "act"); {
			case act < 3 || r == nil:
				do(buying(fmt.Sprint("r", i), rapid.SampledFrom([]string{"milan", "paris", "lyon"}).Draw(t, "consumer"),
					rapid.SampledFrom([]string{"alone", "shared", ""}).Draw(t, "plan"), rapid.Int64Range(1, 4).Draw(t, "units")))
			case act == 3:
				do(market.Confirm{ID: r.ID, Consumer: r.Consumer, Generation: r.Generation, Document: "doc"})
			case act == 4:
				do(market.Accept{ID: r.ID, Provider: r.Provider, Generation: r.Generation, Document: "yes"})
			case act == 5:
				units := rapid.Int64Range(1, 6).Draw(t, "units")
				do(market.Reassign{ID: r.ID, Consumer: r.Consumer, Generation: r.Latest() + 1,
					Size: cpu(units), Units: units, Until: now + 3_600_000, Document: fmt.Sprint("doc", i)})
			case act == 6:
				do(market.Release{ID: r.ID, By: r.Consumer, Generation: r.Generation, Document: "end"})
			case act == 7:
				do(market.Free{ID: r.ID, Provider: r.Provider})
			case rapid.Bool().Draw(t, "restart"):
				n.restart(len(n.journal))
				measure(now)
			default:
				now += market.Time(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t,
					"time").Milliseconds())
				measure(now)
				do(market.Tick{})
			}
			owner, has := "", map[string]bool{}
			for _, r := range n.state.All() {
				if r.State.Counts() && r.Provider == "rome" {
					if has[r.Consumer] = true; r.Dedicated() {
						owner = r.Consumer
					}
				}
			}
			if owner != "" && len(has) > 1 {
				t.Fatalf("%s has the pool alone, with %v", owner, has)
			}
			if owner != "" && n.pool("rome").Owner != owner {
				t.Fatalf("%s has it alone, which is not listed", owner)
			}
		}
	})
}
