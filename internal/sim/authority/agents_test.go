package authority

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// ledger is the Ledger of an agent, which knows the keys that the two have now.
func ledger(t *testing.T, c *cast, self string) *exchange.Exchange {
	t.Helper()
	x := exchangetest.Open(t, nil, exchange.Options{Self: self, Resume: true})
	c.meet(t, x)
	return x
}

func (c *cast) meet(t *testing.T, x *exchange.Exchange) {
	t.Helper()
	for _, p := range []*transporttest.Party{c.rome, c.milan} {
		if _, _, err := (trust.Demand{}).Meet(t.Context(), x, p.Card(api.Properties{Region: "eu"}), p.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// contract is the deal of all stories, as an honest broker shows it.
func (c *cast) contract(now time.Time) *transporttest.Deal {
	offer, _ := c.terms()
	return transporttest.NewDeal(c.rome, c.milan, "r-1", "2", now).From(offer, "spot", 1)
}

// gateOf is milan's gate, with a contract of rome's so far as until says: "" is nothing yet.
func gateOf(t *testing.T, c *cast, until api.State) (*gate.Gate, *transporttest.Deal) {
	t.Helper()
	x := ledger(t, c, "milan")
	broker := &transporttest.Broker{}
	g := gate.New(gate.Options{Cluster: "milan", Key: c.milan.Key,
		Former: []string{c.formerMilan.Key.Public().Fingerprint().String()}, Market: x, Engine: match.New(), Broker: broker, Log: silent})
	measured, err := market.Measure(transporttest.Measurement(1, "8"))
	if err == nil {
		err = x.Observe(t.Context(), "milan", measured, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	document, _ := c.terms()
	offer, err := trust.Offer(document, c.milan.Key.Public())
	if err == nil {
		_, err = x.Do(t.Context(), market.Publish{Offer: offer})
	}
	if err != nil {
		t.Fatal(err)
	}
	d := c.contract(x.Now().Go())
	broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		if d.Shown().Payload.Change.Pending() {
			return *d.Changed(acceptance), nil
		}
		return *d.Reserved(acceptance), nil
	}
	broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) { return *d.Shown(), nil }
	broker.OnProgress = func(string, api.State) (transport.Reservation, error) { return *d.Shown(), nil }
	broker.OnRelease = func(string, string) (transport.Reservation, error) { return *d.Shown(), nil }
	switch until {
	case api.Reserved:
		hears(t, g, d.Signed())
	case api.Held: // it has accepted, and does not know whether that was recorded
		accept := broker.OnAccept
		broker.OnAccept = func(string, string) (transport.Reservation, error) {
			return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "the broker is away")
		}
		hears(t, g, d.Signed())
		broker.OnAccept = accept
	}
	return g, d
}

// hears does what an agent does for what the broker says, until nothing changes. That an error is
// said is part of the story.
func hears(t *testing.T, g *gate.Gate, shown *transport.Reservation) {
	t.Helper()
	for range 5 {
		before := ours(t, g.Market)
		_ = g.Sync(t.Context(), shown, before)
		if ours(t, g.Market) == before {
			return
		}
	}
}

func ours(t *testing.T, x *exchange.Exchange) (r *market.Reservation) {
	t.Helper()
	if err := x.Read(context.Background(), func(s *market.State) { r = s.Reservation("r-1") }); err != nil {
		t.Fatal(err)
	}
	return r
}

// gated is the try of what the broker then shows to the gate.
func gated(until api.State, show func(c *cast, d *transporttest.Deal,
	by *transporttest.Party, now time.Time) *transport.Reservation) func(*testing.T, *cast, int) string {
	return func(t *testing.T, c *cast, by int) string {
		g, d := gateOf(t, c, until)
		before := see(t, g.Market)
		hears(t, g, show(c, d, c.signer(by), g.Market.Now().Go()))
		return effect(before, see(t, g.Market))
	}
}

// accepted is what a broker shows as reserved, with this acceptance.
func accepted(d *transporttest.Deal, acceptance string) *transport.Reservation {
	shown := d.Reserved(acceptance)
	shown.Payload.Acceptance = acceptance
	return shown
}

// newer is a longer assignment of a contract that is bound, as somebody signs it.
func newer(c *cast, d *transporttest.Deal, by *transporttest.Party, now time.Time) (api.Assignment, string) {
	a := c.rome.Assignment(*d.Shown())
	a.Generation, a.ConsumerKey = a.Generation+1, fingerprint(by, c.rome)
	a.Until, a.Begins, a.Issued, a.Expires = transporttest.Seconds(a.Until.Add(time.Hour)), transporttest.Seconds(now), transporttest.Seconds(now), transporttest.Seconds(now.Add(market.HoldTime))
	return a, sign(by, c.rome, api.DocumentAssignment, a)
}

// ending is what ends, with the end that somebody signed.
func ending(d *transporttest.Deal, end string) *transport.Reservation {
	shown := d.Ending(nil, api.ReasonReleased)
	shown.Payload.End = end
	return shown
}

// unmet is a hold whose assignment is nobody's: all that it can bring is its card.
func unmet(d *transporttest.Deal, document string) *transport.Reservation {
	shown := d.SignedAs("none")
	shown.Payload.ConsumerCard = document
	return shown
}

var atTheGate = map[string]func(*testing.T, *cast, int) string{
	"card": gated("", func(c *cast, d *transporttest.Deal, by *transporttest.Party, _ time.Time) *transport.Reservation {
		return unmet(d, cardOf(c.rome, by))
	}),
	"card of a deputy": gated("", func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		return unmet(d, legacyOf(c.rome, by))
	}),
	"rotation": func(t *testing.T, c *cast, by int) string {
		return gated("", func(c *cast, d *transporttest.Deal, by *transporttest.Party, _ time.Time) *transport.Reservation {
			return unmet(d, successorOf(t, c.rome, by))
		})(t, c, by)
	},
	"assignment": gated("", func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		a := c.rome.Assignment(*d.Shown())
		a.ConsumerKey = fingerprint(by, c.rome)
		return d.SignedAs(sign(by, c.rome, api.DocumentAssignment, a))
	}),
	"change": gated(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, now time.Time) *transport.Reservation {
		_, document := newer(c, d, by, now)
		shown := d.Changing("2", document)
		shown.Payload.Change.Assignment = document
		return shown
	}),
	"acceptance, shown again": gated("", func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		d.Signed()
		return accepted(d, sign(by, c.milan, api.DocumentAcceptance, c.milan.Acceptance(*d.Shown())))
	}),
	"end": gated(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		t := d.Shown().Payload
		return ending(d, c.endOf(by, c.rome, "r-1", t.Assignment, t.Generation))
	}),
	"end of another assignment": gated(api.Reserved,
		func(c *cast, d *transporttest.Deal, by *transporttest.Party, _ time.Time) *transport.Reservation {
			return ending(d, c.endOf(by, c.rome, "r-1", "another", 9))
		}),
	"end of what the former keys agreed to": func(t *testing.T, c *cast, by int) string {
		g, d := gateOf(t, c, api.Reserved)
		c.rotate()
		o := g.Options
		o.Key, o.Former = c.milan.Key, []string{c.formerMilan.Key.Public().Fingerprint().String()}
		g = gate.New(o)
		c.meet(t, g.Market)
		before, shown := see(t, g.Market), d.Greeted().Payload
		hears(t, g, ending(d, c.endOf(c.signer(by), c.rome, "r-1", shown.Assignment, shown.Generation)))
		return effect(before, see(t, g.Market))
	},
	"reclaim": gated(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, now time.Time) *transport.Reservation {
		shown := d.Shown()
		shown.Payload.Reclaim = c.reclaimOf(by, "r-1", shown.Payload.Assignment, now)
		return shown
	}),
	"reclaim of another assignment": gated(api.Reserved,
		func(c *cast, d *transporttest.Deal, by *transporttest.Party, now time.Time) *transport.Reservation {
			shown := d.Shown()
			shown.Payload.Reclaim = c.reclaimOf(by, "r-1", "another", now)
			return shown
		}),
	"state of what is accepted and not yet bound": gated(api.Held,
		func(_ *cast, d *transporttest.Deal, by *transporttest.Party, _ time.Time) *transport.Reservation {
			if signs(by) {
				return nil // it is the broker's own word: nobody else says it
			}
			return d.Over(api.Failed, api.ReasonNotAccepted)
		}),
	"state": gated(api.Reserved, func(_ *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		return d.Over(api.Released, api.ReasonReleased)
	}),
}

// rotate has both clusters give up the keys that they have.
func (c *cast) rotate() { c.formerRome, c.formerMilan = c.rome.Rotate(), c.milan.Rotate() }

// borrower is rome's agent, with its contract with milan so far as until says.
func borrower(t *testing.T, c *cast, until api.State) (*requests.Borrower, *transporttest.Deal, *transporttest.Broker) {
	t.Helper()
	x := ledger(t, c, "rome")
	broker := &transporttest.Broker{}
	b := requests.NewBorrower(requests.BorrowerOptions{Cluster: "rome",
		Key: c.rome.Key, Market: x, Broker: broker, Log: silent})
	d := c.contract(x.Now().Go())
	broker.OnReserve = func(string, api.Request) (transport.Reservation, error) { return *d.Shown(), nil }
	broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) { return *d.SignedAs(assignment), nil }
	broker.OnRelease = func(string, string) (transport.Reservation, error) { return *d.Shown(), nil }
	if until == "" {
		return b, d, broker
	}
	if err := b.Ask(t.Context(), wish()); err != nil {
		t.Fatal(err)
	}
	if until == api.Reserved {
		heeds(t, b, d.Reserved(""))
	}
	return b, d, broker
}

func wish() requests.Wish {
	r := transporttest.Request("2")
	r.Resources, r.Purchase = nil, &api.Purchase{Seller: "milan", Offer: "web", Plan: "spot", Units: 1, MaxPrice: price()}
	return requests.Wish{Object: market.Object{Namespace: "default", Name: "r", UID: "uid-1"}, Request: r}
}

func heeds(t *testing.T, b *requests.Borrower, shown *transport.Reservation) {
	t.Helper()
	for range 5 {
		before := ours(t, b.Market)
		if before == nil {
			_ = b.Ask(t.Context(), wish())
			return
		}
		w := wish()
		_ = b.Sync(t.Context(), shown, before, &w)
		if ours(t, b.Market) == before {
			return
		}
	}
}

// borrowed is the try of what the broker then shows to the consumer's agent.
func borrowed(until api.State, show func(c *cast, d *transporttest.Deal,
	by *transporttest.Party, now time.Time) *transport.Reservation) func(*testing.T, *cast, int) string {
	return func(t *testing.T, c *cast, by int) string {
		b, d, broker := borrower(t, c, until)
		before := see(t, b.Market)
		shown := show(c, d, c.signer(by), b.Market.Now().Go())
		broker.OnReserve = func(string, api.Request) (transport.Reservation, error) { return *shown, nil }
		heeds(t, b, shown)
		return effect(before, see(t, b.Market))
	}
}

var atTheConsumer = map[string]func(*testing.T, *cast, int) string{
	"card": borrowed("", func(c *cast, d *transporttest.Deal, by *transporttest.Party,
		_ time.Time) *transport.Reservation {
		return heldOn(d, cardOf(c.milan, by))
	}),
	"card of a deputy": borrowed("", func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		return heldOn(d, legacyOf(c.milan, by))
	}),
	"rotation": func(t *testing.T, c *cast, by int) string {
		return borrowed("", func(c *cast, d *transporttest.Deal, by *transporttest.Party,
			_ time.Time) *transport.Reservation {
			return heldOn(d, successorOf(t, c.milan, by))
		})(t, c, by)
	},
	"assignment, shown again": borrowed("", func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		a := c.rome.Assignment(*d.Shown())
		a.ConsumerKey = fingerprint(by, c.rome)
		d.SignedAs(sign(by, c.rome, api.DocumentAssignment, a))
		return d.Reserved("")
	}),
	"change": borrowed(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, now time.Time) *transport.Reservation {
		a, document := newer(c, d, by, now)
		shown := d.SignedAs(document)
		shown.Payload.Generation, shown.Payload.Until = a.Generation, a.Until
		shown.Payload.Acceptance = c.milan.Agree(*shown)
		return shown
	}),
	"acceptance": borrowed(api.Held, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		return accepted(d, sign(by, c.milan, api.DocumentAcceptance, c.milan.Acceptance(*d.Shown())))
	}),
	"end": borrowed(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		t := d.Shown().Payload
		return ending(d, c.endOf(by, c.rome, "r-1", t.Assignment, t.Generation))
	}),
	"end of another assignment": borrowed(api.Reserved,
		func(c *cast, d *transporttest.Deal, by *transporttest.Party, _ time.Time) *transport.Reservation {
			return ending(d, c.endOf(by, c.rome, "r-1", "another", 9))
		}),
	"end of what the former keys agreed to": func(t *testing.T, c *cast, by int) string {
		b, d, _ := borrower(t, c, api.Reserved)
		c.rotate()
		b.Key = c.rome.Key
		c.meet(t, b.Market)
		before, shown := see(t, b.Market), d.Greeted().Payload
		heeds(t, b, ending(d, c.endOf(c.signer(by), c.rome, "r-1", shown.Assignment, shown.Generation)))
		return effect(before, see(t, b.Market))
	},
	"reclaim": borrowed(api.Reserved, func(c *cast, d *transporttest.Deal,
		by *transporttest.Party, now time.Time) *transport.Reservation {
		shown := d.Shown()
		shown.Payload.Reclaim = c.reclaimOf(by, "r-1", shown.Payload.Assignment, now)
		return shown
	}),
	"reclaim of another assignment": borrowed(api.Reserved,
		func(c *cast, d *transporttest.Deal, by *transporttest.Party, now time.Time) *transport.Reservation {
			shown := d.Shown()
			shown.Payload.Reclaim = c.reclaimOf(by, "r-1", "another", now)
			return shown
		}),
	"offer": borrowed("", func(c *cast, d *transporttest.Deal, by *transporttest.Party,
		_ time.Time) *transport.Reservation {
		offer := sign(by, c.milan, api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol,
			Seller: "milan", Name: "web", Version: 1, Offer: api.OfferSpec{Type: "compute", Plans: []api.Plan{{
				Name: "spot", Resources: transporttest.CPU("2"), Notice: &metav1.Duration{Duration: 10 * time.Minute},
				Price: price(),
			}}}})
		return d.From(offer, "spot", 1).Shown()
	}),
	"state": borrowed(api.Reserved, func(_ *cast, d *transporttest.Deal,
		by *transporttest.Party, _ time.Time) *transport.Reservation {
		return d.Over(api.Released, api.ReasonReleased)
	}),
}

// heldOn is a hold that comes with this card of its provider's.
func heldOn(d *transporttest.Deal, document string) *transport.Reservation {
	shown := d.Shown()
	shown.Payload.ProviderCard = document
	return shown
}
