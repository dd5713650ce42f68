package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// publishes puts an offer of milan's on sale at its gate, and returns the document.
func (g *testGate) publishes(version int64, spec api.OfferSpec) string {
	g.t.Helper()
	document := g.milan.SignOffer("web", version, spec)
	offer, err := trust.Offer(document, g.milan.Key.Public())
	if err == nil {
		_, err = g.Market.Do(context.Background(), market.Publish{Offer: offer})
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return document
}

// sells returns a gate that sells eight units of a CPU each. Its broker accepts every refusal.
func sells(t *testing.T) (g *testGate, offer string) {
	g = newGate(t, "8")
	g.lies()
	return g, g.publishes(1, transporttest.WebOffer("0.10"))
}

// buys returns what rome signs for a purchase of two units, with a change; the broker shows this
// offer with it.
func (g *testGate) buys(id, offer string, change func(*api.Assignment)) *transport.Reservation {
	g.t.Helper()
	d := g.deal(id, "2").From(offer, "small", 2)
	shown := d.Signed()
	a := g.rome.Assignment(*shown)
	change(&a)
	shown.Payload.Assignment = g.rome.Sign(api.DocumentAssignment, a)
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		shown.Payload.State, shown.Payload.Acceptance = api.Reserved, acceptance
		return *shown, nil
	}
	return shown
}

func asItIs(*api.Assignment) {}

// sold checks how many units of the plan small are sold.
func (g *testGate) sold(units int64) {
	g.t.Helper()
	l := g.Market.View().Listing("milan")
	offer := &market.Offer{Signed: &api.SignedOffer{Name: "web"}}
	if got := l.SoldOf(offer)["small"]; got != units {
		g.t.Fatalf("%d units are sold, want %d", got, units)
	}
}

// The gate sells only offers of its own Ledger, as its seller signed them, even if buyer and broker
// agree on others.
func TestSellsWhatIsOnSale(t *testing.T) {
	g, offer := sells(t)
	g.heard(g.buys("r-1", offer, asItIs), "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.sold(2)
	r := g.ours("r-1")
	if r.Sale == nil || r.Sale.Units != 2 || r.Offer == nil || r.From == 0 {
		t.Errorf("the Ledger has %+v", r)
	}
	// that the broker shows no offer does not matter: the Ledger has it
	g.heard(g.buys("r-2", "", func(a *api.Assignment) {
		a.Sale, a.Resources = &api.Sale{Offer: r.Sale.Offer, Plan: "small", Units: 6}, transporttest.CPU("6")
	}), "Accept r-2")
	g.sold(8)
	g.left(0)
}

func TestHostileBuyer(t *testing.T) {
	g, offer := sells(t)
	oslo := transporttest.NewParty(t, "oslo")
	foreign := oslo.SignOffer("web", 1, transporttest.WebOffer("0.01"))
	forged := oslo.Sign(api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol,
		Seller: "milan", Name: "web", Version: 9, Offer: transporttest.WebOffer("0.01")})
	unpublished := g.milan.SignOffer("other", 1, transporttest.WebOffer("0.01"))
	sale := func(change func(*api.Sale)) func(*api.Assignment) {
		return func(a *api.Assignment) {
			s := *a.Sale
			change(&s)
			a.Sale = &s
		}
	}
	for i, c := range []struct {
		name, offer string
		change      func(*api.Assignment)
		reason      api.Reason
	}{
		{"more than the units are", offer, func(a *api.Assignment) { a.Resources = transporttest.CPU("4") },
			api.ReasonBadAssignment},
		{"less than the units are", offer, func(a *api.Assignment) { a.Resources = transporttest.CPU("1") },
			api.ReasonBadAssignment},
		{"more units than the size has", offer, sale(func(s *api.Sale) { s.Units = 4 }), api.ReasonBadAssignment},
		{"no units", offer, sale(func(s *api.Sale) { s.Units = 0 }), api.ReasonBadAssignment},
		{"fewer than none", offer, sale(func(s *api.Sale) { s.Units = -2 }), api.ReasonBadAssignment},
		{"units between two steps", offer, func(a *api.Assignment) { a.Sale.Units, a.Resources = 3, transporttest.CPU("3") },
			api.ReasonBadAssignment},
		{"more units than one contract may have", offer,
			func(a *api.Assignment) { a.Sale.Units, a.Resources = 8, transporttest.CPU("8") }, api.ReasonBadAssignment},
		{"another plan of that offer", offer, sale(func(s *api.Sale) { s.Plan = "large" }), api.ReasonBadAssignment},
		{"a plan that is none", offer, sale(func(s *api.Sale) { s.Plan = "huge" }), api.ReasonBadAssignment},
		{"in another pool", offer, func(a *api.Assignment) {
			a.Pool,
				a.Slice = "gpu", market.SliceName("rome", "milan", "gpu")
		}, api.ReasonBadAssignment},
		{"that begins much later", offer,
			func(a *api.Assignment) { a.Begins = transporttest.Seconds(g.now().Add(30 * time.Minute)) }, api.ReasonBadAssignment},
		{"that began long ago", offer,
			func(a *api.Assignment) { a.Begins = transporttest.Seconds(g.now().Add(-30 * time.Minute)) }, api.ReasonBadAssignment},
		{"for longer than the plan is sold", offer,
			func(a *api.Assignment) { a.Until = transporttest.Seconds(g.now().Add(30 * time.Hour)) }, api.ReasonBadAssignment},
		{"from another seller's offer", foreign, asItIs, api.ReasonBadAssignment},
		{"from an offer that another signed in its name", forged, asItIs, api.ReasonBadAssignment},
		{"from an offer that is nowhere", "", sale(func(s *api.Sale) { s.Offer = "SHA256:AAAA" }), api.ReasonBadAssignment},
		{"from one offer, with another shown", unpublished,
			sale(func(s *api.Sale) { s.Offer = clusterkey.Digest(foreign).String() }), api.ReasonBadAssignment},
		{"from an offer that it signed, and does not have on sale", unpublished, asItIs, api.ReasonNothingShared},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := "r-bad-" + string(rune('a'+i))
			g.heard(g.buys(id, c.offer, c.change), "Refuse "+id+" "+string(c.reason))
			g.holds(id, "", "")
			g.sold(0)
			g.left(8000)
		})
	}
}

// An offer that was changed or withdrawn is no longer sold, even to a buyer who signed in time. Nor
// is a plan that is sold out.
func TestNoLongerOnSale(t *testing.T) {
	g, old := sells(t)
	late := g.buys("r-late", old, asItIs)
	offer := g.publishes(2, transporttest.WebOffer("0.20"))
	g.heard(late, "Refuse r-late NothingShared") // which nothing was sold of: it is forgotten
	g.heard(g.buys("r-1", offer, func(a *api.Assignment) { a.Sale.Units, a.Resources = 6, transporttest.CPU("6") }),
		"Accept r-1")
	g.measure("80", nil)
	g.heard(g.buys("r-2", offer, func(a *api.Assignment) { a.Sale.Units, a.Resources = 4, transporttest.CPU("4") }),
		"Refuse r-2 Insufficient")
	g.heard(g.buys("r-3", offer, asItIs), "Accept r-3")
	g.publishes(3, transporttest.WebOffer("0.30"))
	g.heard(g.buys("r-4", offer, asItIs), "Refuse r-4 BadAssignment") // which something was sold of: it is known
	g.sold(8)
}

// The offer and the SharingPolicy say who may buy, and until when.
func TestWhoMayBuy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.OfferSpec)
		terms  func(*api.Measurement)
		want   string
	}{
		"shown to others": {change: func(o *api.OfferSpec) { o.VisibleTo.Clusters = []string{"oslo"} },
			want: "PolicyRefuses"},
		"not what accept says": {change: func(o *api.OfferSpec) { o.Accept = `consumer.region == "us"` },
			want: "PolicyRefuses"},
		"what accept says": {change: func(o *api.OfferSpec) { o.Accept = `consumer.region == "eu" && request.seconds <= 3600` }},
		"an accept that fails": {change: func(o *api.OfferSpec) { o.Accept = `consumer.labels.tier == "gold"` },
			want: "PolicyRefuses"},
		"before its time": {change: func(o *api.OfferSpec) {
			at := transporttest.Seconds(time.Now().Add(1000 * time.Hour))
			o.ValidFrom = &at
		}, want: "BadAssignment"},
		"after its time": {change: func(o *api.OfferSpec) {
			at := transporttest.Seconds(time.Now().Add(-1000 * time.Hour))
			o.ValidUntil = &at
		}, want: "BadAssignment"},
		"not as the policy demands": {terms: func(m *api.Measurement) { m.Terms.Allow = `consumer.region == "us"` },
			want: "PolicyRefuses"},
		"more than the policy lends": {terms: func(m *api.Measurement) { m.Terms.MaxPerReservation = transporttest.CPU("1") },
			want: "PolicyRefuses"},
		"of who sells only": {terms: func(m *api.Measurement) { m.Terms.OnlyOffers = true }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "8")
			g.lies()
			spec := transporttest.WebOffer("0.10")
			if c.change != nil {
				c.change(&spec)
			}
			offer := g.publishes(1, spec)
			if c.terms != nil {
				g.measure("8", c.terms)
			}
			want := "Accept r-1"
			if c.want != "" {
				want = "Refuse r-1 " + c.want
			}
			g.heard(g.buys("r-1", offer, asItIs), want)
		})
	}
}

// A cluster that only sells lends nothing without a purchase, even if the broker holds it. Earlier
// reservations stay.
func TestSellsOnly(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	g.measure("8", func(m *api.Measurement) { m.Terms.OnlyOffers = true })
	g.heard(g.deal("r-2", "2").Signed(), "Refuse r-2 PolicyRefuses")
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
}

// A Ledger that lost everything restores what it sold, with the signed offer that the broker shows.
func TestAdoptsWhatItSold(t *testing.T) {
	g, offer := sells(t)
	shown := g.buys("r-1", offer, asItIs)
	g.heard(shown, "Accept r-1")

	again := open(t, memorytest.New(), g.rome, g.milan, transporttest.NewClock(), "8")
	hidden := *shown
	hidden.Payload.Offer = ""
	again.waits(&hidden, api.CodeUnavailable)
	again.holds("r-1", "", "") // of an offer that it cannot see it does not know what it sold
	rewritten := *shown
	rewritten.Payload.Offer = again.milan.SignOffer("web", 1, transporttest.WebOffer("9.99"))
	again.waits(&rewritten, api.CodeUnavailable)
	again.holds("r-1", "", "")
	again.heard(shown)
	again.holds("r-1", api.Reserved, "")
	again.sold(2)
	if r := again.ours("r-1"); r.Offer == nil || r.Offer.OnSale || r.Offer.Document != offer {
		t.Errorf("it remembers %+v", r.Offer)
	}
	again.left(6000)
	next := again.publishes(2, transporttest.WebOffer("0.10"))
	again.lies()
	again.heard(again.buys("r-2", next, func(a *api.Assignment) { a.Sale.Units, a.Resources = 6, transporttest.CPU("6") }),
		"Accept r-2")
	again.heard(again.buys("r-3", next, asItIs), "Refuse r-3 Insufficient")
}

// Where keys must be confirmed, a cluster without a confirmed key cannot buy.
func TestSellsToWhoIsConfirmed(t *testing.T) {
	g, offer := sells(t)
	g.Trust.Pinned = func() bool { return true }
	g.heard(g.buys("r-1", offer, asItIs), "Refuse r-1 KeyUnconfirmed")
	if _, err := g.Market.Do(t.Context(), market.Trust{Cluster: "rome",
		Fingerprint: g.rome.Key.Public().Fingerprint().String()}); err != nil {
		t.Fatal(err)
	}
	g.heard(g.buys("r-2", offer, asItIs), "Accept r-2")
}
