package requests_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// buyer is rome, which buys two units of a plan of milan's for an hour, for at most 0.10 EUR an hour each.
func newBuyer(t testing.TB) (b *borrower, offer string) {
	t.Helper()
	b = newBorrower(t)
	b.wish.Request = api.Request{
		Duration: &metav1.Duration{Duration: time.Hour},
		Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small",
			Units: 2, MaxPrice: &api.Price{Amount: "0.10", Currency: "EUR", Period: api.PeriodHour}},
	}
	return b, b.milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
}

func digestOf(offer string) string { return clusterkey.Digest(offer).String() }

func TestBuys(t *testing.T) {
	for name, change := range map[string]func(p *api.Purchase, offer string){
		"for the most that it pays": func(*api.Purchase, string) {},
		"by the offer's digest":     func(p *api.Purchase, offer string) { p.Digest, p.MaxPrice = digestOf(offer), nil },
		"the fewest units":          func(p *api.Purchase, _ string) { p.Units = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b, offer := newBuyer(t)
			change(b.wish.Request.Purchase, offer)
			d := b.deal().From(offer, "small", 2)
			b.offers(d.Shown)
			b.takes(d)
			b.asked("Reserve uid-1", "Confirm r-1")
			b.hears(d.Reserved(""))
			b.holds(api.Reserved, "")
			r := b.ours()
			if r.Sale == nil || r.Sale.Units != 2 || r.Offer == nil ||
				r.Offer.Document != offer || r.Offer.OnSale || r.From.Go() != b.ours().Created.Go().Truncate(time.Second) {
				t.Errorf("the Ledger has %+v", r)
			}
			var a api.Assignment
			if err := clusterkey.Verify(r.Assignment, api.DocumentAssignment, b.rome.Key.Public(), &a); err != nil ||
				a.Sale == nil || a.Sale.Offer != digestOf(offer) || a.Begins.IsZero() {
				t.Errorf("it signed %+v, %v", a, err)
			}
		})
	}
}

// A hold that is not what was to be bought, or has another price, is not signed, even if the seller
// signed it.
func TestALyingBrokerSells(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(b *borrower, r *api.Reservation)
		want api.Code
	}{
		"nothing":                     {func(_ *borrower, r *api.Reservation) { r.Sale = nil }, api.CodeBadSignature},
		"an offer that nobody signed": {func(_ *borrower, r *api.Reservation) { r.Offer = "x" }, api.CodeBadSignature},
		"no offer":                    {func(_ *borrower, r *api.Reservation) { r.Offer = "" }, api.CodeBadSignature},
		"an offer of another seller": {func(b *borrower, r *api.Reservation) {
			sell(r, transporttest.NewParty(b.t, "oslo").SignOffer("web", 1, transporttest.WebOffer("0.10")))
		}, api.CodeBadSignature},
		"an offer that it rewrote": {func(b *borrower, r *api.Reservation) {
			sell(r, transporttest.NewParty(b.t, "oslo").Sign(api.DocumentOffer,
				api.SignedOffer{Protocol: 1, Seller: "milan", Name: "web", Version: 1, Offer: transporttest.WebOffer("0.10")}))
		}, api.CodeBadSignature},
		"an offer in milan's hand, of another seller": {func(b *borrower, r *api.Reservation) {
			sell(r, b.milan.Sign(api.DocumentOffer, api.SignedOffer{Protocol: 1,
				Seller: "oslo", Name: "web", Version: 1, Offer: transporttest.WebOffer("0.10")}))
		}, api.CodeBadSignature},
		"one offer, and shows another": {func(b *borrower, r *api.Reservation) {
			r.Offer = b.milan.SignOffer("web", 2, transporttest.WebOffer("0.10"))
		}, api.CodeBadSignature},
		"a dearer version": {func(b *borrower, r *api.Reservation) {
			sell(r, b.milan.SignOffer("web", 2, transporttest.WebOffer("0.11")))
		}, api.CodeConflict},
		"another offer of milan's": {func(b *borrower, r *api.Reservation) {
			sell(r, b.milan.SignOffer("gold", 1, transporttest.WebOffer("0.10")))
		}, api.CodeConflict},
		"another plan": {func(_ *borrower, r *api.Reservation) {
			r.Sale = &api.Sale{Offer: r.Sale.Offer, Plan: "large", Units: 1}
		}, api.CodeBadSignature},
		"more units": {func(_ *borrower, r *api.Reservation) {
			r.Sale = &api.Sale{Offer: r.Sale.Offer, Plan: "small", Units: 4}
		}, api.CodeBadSignature},
		"more units, of that size": {func(_ *borrower, r *api.Reservation) {
			r.Sale, r.Resources = &api.Sale{Offer: r.Sale.Offer, Plan: "small", Units: 4}, transporttest.CPU("4")
		}, api.CodeBadSignature},
		"less than it pays for": {func(_ *borrower, r *api.Reservation) { r.Resources = transporttest.CPU("1") },
			api.CodeBadSignature},
		"in another pool": {func(_ *borrower, r *api.Reservation) { r.Pool = "gpu" }, api.CodeBadSignature},
		"of another provider": {func(b *borrower, r *api.Reservation) {
			oslo := transporttest.NewParty(b.t, "oslo")
			r.Provider, r.ProviderCard = "oslo", oslo.Card(api.Properties{})
			sell(r, oslo.SignOffer("web", 1, transporttest.WebOffer("0.10")))
		}, api.CodeBadSignature},
		"what has run for most of its time": {func(b *borrower, r *api.Reservation) {
			r.Created, r.Until = later(r.Created, -50*time.Minute), later(r.Until, -50*time.Minute)
		}, api.CodeBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			b, offer := newBuyer(t)
			r := b.deal().From(offer, "small", 2).Shown()
			c.lie(b, &r.Payload)
			b.offers(func() *transport.Reservation { return r })
			b.refusesToAsk(c.want)
			b.holds("", "")
		})
	}
}

// sell makes a reservation from the plan small of another offer.
func sell(r *api.Reservation, offer string) {
	r.Offer, r.Sale = offer, &api.Sale{Offer: digestOf(offer), Plan: "small", Units: 2}
}

// A request that names an offer's digest gets no other version, not even a cheaper one. A request
// without a purchase buys nothing.
func TestALyingBrokerSellsAnotherVersion(t *testing.T) {
	b, offer := newBuyer(t)
	b.wish.Request.Purchase.Digest = digestOf(offer)
	d := b.deal().From(b.milan.SignOffer("web", 2, transporttest.WebOffer("0.01")), "small", 2)
	b.offers(d.Shown)
	b.refusesToAsk(api.CodeConflict)

	b, offer = newBuyer(t)
	b.wish.Request = transporttest.Request("2")
	b.offers(b.deal().From(offer, "small", 2).Shown)
	b.refusesToAsk(api.CodeBadSignature)
}

// A hold that comes back from another version of the offer is not signed: the user saw the first one.
func TestALyingBrokerSwapsTheOfferLater(t *testing.T) {
	b, offer := newBuyer(t)
	b.wish.Request.Confirm = true
	d := b.deal().From(offer, "small", 2)
	b.offers(d.Shown)
	b.asked("Reserve uid-1")
	b.holds(api.Held, "")
	b.wish.Confirmed = true
	shown := d.From(b.milan.SignOffer("web", 2, transporttest.WebOffer("0.05")), "small", 2).Again()
	if err := b.Sync(context.Background(), shown, b.ours(), b.wish); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("%v", err)
	}
	b.wasAsked()
	if r := b.ours(); r.Assignment != "" || r.Sale.Offer != digestOf(offer) {
		t.Errorf("it signed %+v", r)
	}
}

// A seller's key has changed, or is not confirmed where that is demanded: the broker receives a
// refusal, and nothing is signed.
func TestBuysOfWhomItTrusts(t *testing.T) {
	b, offer := newBuyer(t)
	b.Trust.Pinned = func() bool { return true }
	b.offers(b.deal().From(offer, "small", 2).Shown)
	if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeUnavailable { // and it cannot even be told so
		t.Errorf("%v", err)
	}
	b.wasAsked("Reserve uid-1", "Refuse r-1 KeyUnconfirmed")
	b.holds("", "")
}

// A Ledger that lost everything restores what it bought, with the offer that its own assignment
// names, and no other.
func TestTakesUpWhatItBought(t *testing.T) {
	b, offer := newBuyer(t)
	d := b.deal().From(offer, "small", 2)
	d.Signed()
	shown := d.Reserved("")
	for _, other := range []string{b.milan.SignOffer("web", 2, transporttest.WebOffer("9.99")), "", "x"} {
		b := again(t, b.rome, b.milan, b.clock)
		b.wish.Request.Purchase = &api.Purchase{Seller: "milan", Offer: "web", Plan: "small"}
		lie := *shown
		if lie.Payload.Offer = other; other != "" {
			sell(&lie.Payload, other)
		}
		b.offers(func() *transport.Reservation { return &lie })
		b.refusesToAsk(api.CodeBadSignature)
		b.holds("", "")
	}
	b.offers(func() *transport.Reservation { return shown })
	b.asked("Reserve uid-1")
	b.holds(api.Reserved, "")
	if r := b.ours(); r.Offer == nil || r.Offer.Document != offer || r.Sale.Units != 2 || r.From == 0 {
		t.Errorf("it takes up %+v", r)
	}
}

// newShopper returns rome, which wants three CPUs for an hour for at most 0.50 EUR an hour; milan
// sells four for 0.40.
func newShopper(t testing.TB) (b *borrower, offer string) {
	t.Helper()
	b = newBorrower(t)
	b.wish.Request = transporttest.Request("3")
	b.wish.Request.MaxPrice = &api.Price{Amount: "12", Currency: "EUR", Period: api.PeriodDay}
	return b, b.milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
}

func TestBuysUnderACeiling(t *testing.T) {
	b, offer := newShopper(t)
	d := transporttest.NewDeal(b.rome, b.milan, "r-1", "4", b.now()).From(offer, "small", 4)
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	if r := b.ours(); r.Sale == nil || r.Sale.Units != 4 || r.Offer == nil || r.From == 0 || r.Size.Of("cpu") != 4000 {
		t.Errorf("the Ledger has %+v", r)
	}
	if _, err := b.Change(t.Context(), b.ours(), *b.wish); err != nil || b.ours().Change != nil {
		t.Errorf("what is as it was asked for is changed: %v, %+v", err, b.ours().Change)
	}
	b.wish.Request.Resources = transporttest.CPU("5")
	if _, err := b.Change(t.Context(), b.ours(), *b.wish); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("six units would cost 0.60 EUR an hour: %v", err)
	}
	b.wish.Request.MaxPrice.Amount = "14.4"
	if _, err := b.Change(t.Context(), b.ours(), *b.wish); err != nil ||
		b.ours().Change == nil || b.ours().Change.Units != 6 {
		t.Errorf("for exactly as much as is paid: %v, %+v", err, b.ours().Change)
	}
	// A loan without a purchase is what was asked for, as without a maximum price.
	b, _ = newShopper(t)
	d = transporttest.NewDeal(b.rome, b.milan, "r-1", "3", b.now())
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
}

func TestALyingBrokerSellsUnderACeiling(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(b *borrower, r *api.Reservation)
		want api.Code
	}{
		"above it": {func(b *borrower, r *api.Reservation) {
			r.Offer = b.milan.SignOffer("web", 2, transporttest.WebOffer("0.125000001"))
			r.Sale.Offer = digestOf(r.Offer)
		}, api.CodeConflict},
		"in another currency": {func(b *borrower, r *api.Reservation) {
			spec := transporttest.WebOffer("0.01")
			spec.Plans[0].Price.Currency = "USD"
			r.Offer = b.milan.SignOffer("web", 2, spec)
			r.Sale.Offer = digestOf(r.Offer)
		}, api.CodeConflict},
		"more units than are needed": {func(_ *borrower, r *api.Reservation) {
			r.Sale.Units, r.Resources = 6, transporttest.CPU("6")
		}, api.CodeBadSignature},
		"less than was asked for": {func(_ *borrower, r *api.Reservation) {
			r.Sale.Units, r.Resources = 2, transporttest.CPU("2")
		}, api.CodeBadSignature},
		"of a plan that has too little": {func(_ *borrower, r *api.Reservation) {
			r.Sale.Plan, r.Sale.Units, r.Resources = "large", 1, transporttest.CPU("2")
		}, api.CodeConflict},
		"of a plan that is none": {func(_ *borrower, r *api.Reservation) { r.Sale.Plan = "huge" }, api.CodeConflict},
		"what may be taken back": {func(b *borrower, r *api.Reservation) {
			spec := transporttest.WebOffer("0.01")
			spec.Plans[0].Notice = &metav1.Duration{Duration: time.Minute}
			r.Offer = b.milan.SignOffer("web", 2, spec)
			r.Sale.Offer = digestOf(r.Offer)
		}, api.CodeConflict},
		"an offer that nobody signed": {func(_ *borrower, r *api.Reservation) { r.Offer = "x" }, api.CodeBadSignature},
		"since long ago": {func(_ *borrower, r *api.Reservation) {
			r.Created, r.Until = later(r.Created, -50*time.Minute), later(r.Until, -50*time.Minute)
		}, api.CodeBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			b, offer := newShopper(t)
			r := transporttest.NewDeal(b.rome, b.milan, "r-1", "4", b.now()).From(offer, "small", 4).Shown()
			c.lie(b, &r.Payload)
			b.offers(func() *transport.Reservation { return r })
			b.refusesToAsk(c.want)
			b.holds("", "")
		})
	}
}
