package market_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// under is paris asking for three cores for an hour under a ceiling: of rome, that sells four units
// of small, else of milan, that lends.
func under(id string) *market.Hold {
	h := request(id, 3)
	h.Plans = map[string]*api.Sale{"rome": {Offer: "SHA256:rome/web/1", Plan: "small", Units: 4}}
	return h
}

// What is held on a seller is its plan, on a lender what was asked for: with each move it is what
// the next one has.
func TestAHoldMovesBetweenSellersAndLenders(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, webPlans(4))})
	lent := under("back")
	lent.Candidates = []string{"milan", "rome"}
	for _, h := range []*market.Hold{under("r"), lent} {
		market.Prepare(h) // as the exchange does
		r := d.must(h).Reservation
		for range 2 {
			switch r.Provider {
			case "rome":
				if r.Sale == nil || r.Sale.Units != 4 || !r.Size.Equal(cpu(4)) || r.From != d.now || r.Offer == nil {
					t.Errorf("sold: %s", dump(r))
				}
			case "milan":
				if r.Sale != nil || !r.Size.Equal(cpu(3)) || r.From != 0 || r.Offer != nil {
					t.Errorf("lent: %s", dump(r))
				}
			default:
				t.Fatalf("held on %q", r.Provider)
			}
			last := r
			r = d.must(market.Refuse{ID: r.ID, By: "paris", Generation: r.Generation, Reason: api.ReasonUnreachable}).Reservation
			if len(last.Next) == 0 && r.State != api.Failed {
				t.Errorf("after both: %s", dump(r))
			}
		}
	}
	if got := d.available("rome"); got != 8000 {
		t.Errorf("rome has %d left", got)
	}
	d.restart(len(d.journal)) // and the journal says the same
}

// An offer that is taken off sale is kept for a hold that was made from it, until that moves on to a lender.
func TestAHoldThatMovesOnLeavesItsOffer(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, webPlans(4))})
	d.must(under("r"))
	d.must(market.Withdraw{Seller: "rome", Name: "web"})
	if n := len(d.state.Offers()); n != 1 {
		t.Fatalf("%d offers are kept", n)
	}
	r := d.must(market.Refuse{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonUnreachable}).Reservation
	if n := len(d.state.Offers()); r.Sale != nil || n != 0 {
		t.Errorf("%d offers are kept: %s", n, dump(r))
	}
	d.restart(len(d.journal))
}

// Who sells out, changes the offer, or is asked too late is passed by.
func TestAHoldPassesBySellersThatCannot(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, webPlans(7))})
	d.offers("milan", 2, "32")
	d.must(under("first"))
	if r := d.must(under("second")).Reservation; r.Provider != "milan" {
		t.Errorf("sold out, and held on %s", r.Provider)
	}
	d.must(market.Refuse{ID: "first", By: "paris", Generation: 1, Reason: api.ReasonUnreachable})
	d.must(market.Publish{Offer: offered(t, "rome", "web", 2, webPlans(7))})
	if r := d.must(under("third")).Reservation; r.Provider != "milan" {
		t.Errorf("of a version that is no longer on sale, held on %s", r.Provider)
	}

	d = newTestBroker(t)
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, webPlans(4))})
	m := measurement(map[string]api.Pool{"general": {Allocatable: resources("cpu", "8"), Shared: resources("cpu", "8")}})
	m.Terms.ApproveWithin, m.Sequence.Number = &metav1.Duration{Duration: time.Hour}, 2
	measured, err := market.Measure(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.observe("milan", measured, d.now); err != nil {
		t.Fatal(err)
	}
	h := under("late")
	h.Candidates, h.Duration = []string{"milan", "rome"}, 24*time.Hour
	d.must(h)
	d.must(market.Confirm{ID: "late", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.pass(market.DecideTime + time.Second)
	d.offers("rome", 2, "8")
	if r := d.must(market.Refuse{ID: "late", By: "milan", Generation: 1,
		Reason: api.ReasonNotApproved}).Reservation; r.State != api.Failed {
		t.Errorf("what would have been paid for since it was asked for is held on %s", r.Provider)
	}
}

// A consumer's caps count what a plan would have, not what was asked for.
func TestCapsCountPlans(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, webPlans(4))})
	h := under("r")
	h.Candidates = []string{"milan", "rome"}
	h.Caps = market.Caps{Resources: cpu(3)}
	d.fails(api.CodeCapReached, h)
	h.Caps = market.Caps{Resources: cpu(4)}
	d.must(h)
}

// Serves is the fewest units that are sold and have all of it, found the slow way.
func TestServesIsTheFewestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := api.Units{Min: rapid.Int64Range(1, 5).Draw(t, "min"), Step: rapid.Int64Range(1, 4).Draw(t, "step")}
		u.Max = u.Min + rapid.Int64Range(0, 12).Draw(t, "more")
		one := amounts.List{{Resource: "cpu", Value: rapid.Int64Range(1, 4).Draw(t, "cpu")},
			{Resource: "memory", Value: rapid.Int64Range(1, 4).Draw(t, "memory")}}
		p := offered(t, "rome", "web", 1,
			api.OfferSpec{Plans: []api.Plan{{Name: "a", Resources: one.Resources(), Units: &u}}}).Plan("a")
		size := amounts.List{{Resource: "memory", Value: rapid.Int64Range(1, 40).Draw(t, "asked")}}
		if rapid.Bool().Draw(t, "both") {
			size = amounts.List{{Resource: "cpu", Value: rapid.Int64Range(1, 40).Draw(t, "asked cpu")}, size[0]}
		}
		want := int64(0)
		for units := u.Min; units <= u.Max && want == 0; units++ {
			if has, err := p.Of(units); err == nil && has.Fits(size) {
				want = units
			}
		}
		if got := p.Serves("general", size, time.Hour); got != want {
			t.Fatalf("%v of %v in %+v: %d units, want %d", size, one, u, got, want)
		}
		if p.Serves("gpu", size, time.Hour) != 0 {
			t.Fatal("in another pool")
		}
	})
}
