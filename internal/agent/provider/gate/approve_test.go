package gate_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// byHand returns milan's gate, where an admin approves each reservation within an hour.
func byHand(t *testing.T) *testGate {
	g := newGate(t, "")
	g.measure("8", approved)
	return g
}

func approved(m *api.Measurement) {
	m.Terms.ApproveWithin = &metav1.Duration{Duration: time.Hour}
}

// The gate accepts nothing before an admin approves it, however often the broker shows it; then it accepts
// once.
func TestAwaitsApproval(t *testing.T) {
	g := byHand(t)
	d := g.deal("r-1", "2")
	d.ByHand(30 * time.Minute)
	signed := d.Signed()
	g.heard(signed)
	g.heard(signed)
	g.holds("r-1", api.Held, "")
	g.left(6000)
	lie := *signed
	lie.Payload.State, lie.Payload.Acceptance = api.Reserved, g.rome.Agree(*signed)
	g.heard(&lie)
	if r := g.ours("r-1"); !r.AwaitsApproval() {
		t.Errorf("a broker's word was believed: %+v", r)
	}
	if err := g.Approve(t.Context(), "r-1", 2); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("another generation is approved: %v", err)
	}
	if err := g.Approve(t.Context(), "r-2", 0); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("nothing is approved: %v", err)
	}
	for range 2 {
		if err := g.Approve(t.Context(), "r-1", 1); err != nil {
			t.Fatal(err)
		}
	}
	g.broker.OnAccept = func(_, document string) (transport.Reservation, error) {
		var a api.Acceptance
		err := clusterkey.Verify(document, api.DocumentAcceptance, g.milan.Key.Public(), &a)
		if err != nil || a.Assignment != clusterkey.Digest(signed.Payload.Assignment).String() ||
			a.Expires.Before(&signed.Payload.ApproveBy) {
			t.Errorf("the acceptance says %+v, %v", a, err)
		}
		return *d.Reserved(document), nil
	}
	g.heard(signed, "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	if err := g.Approve(t.Context(), "r-1", 0); err != nil {
		t.Errorf("approved once more: %v", err)
	}
	if err := g.Deny(t.Context(), "r-1", 0, "too late"); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("denied once accepted: %v", err)
	}
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation,
		error) {
		return *d.Unchanged(api.ReasonPolicy), nil
	}
	g.heard(d.Changing("3", ""), "Refuse r-1 PolicyRefuses") // nobody approves that
}

// A denial is sent to the broker until the broker has it.
func TestDenied(t *testing.T) {
	g := byHand(t)
	d := g.deal("r-1", "2")
	d.ByHand(30 * time.Minute)
	signed := d.Signed()
	g.heard(signed)
	for range 2 {
		if err := g.Deny(t.Context(), "r-1", 0, "not you\x1b"); err != nil {
			t.Fatal(err)
		}
	}
	g.holds("r-1", api.Failed, api.ReasonNotApproved)
	g.left(8000)
	if err := g.hears(signed); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatalf("the broker is away: %v", err)
	}
	g.broker.Asked()
	g.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		if r.Message != "not you " || r.Generation != 1 {
			t.Errorf("it is told %+v", r)
		}
		return *d.Over(api.Failed, api.ReasonNotAccepted), nil
	}
	g.heard(signed, "Refuse r-1 NotApproved")
	g.heard(d.Shown())
	if err := g.Approve(t.Context(), "r-1", 0); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("approved once denied: %v", err)
	}
}

// Without an answer the time runs out. A consumer that cancels does not have to wait for it.
func TestApprovalEnds(t *testing.T) {
	g := byHand(t)
	d, other := g.deal("r-1", "2"), g.deal("r-2", "2")
	d.ByHand(10 * time.Minute)
	other.ByHand(10 * time.Minute)
	g.heard(d.Signed())
	g.heard(other.Signed())
	g.broker.OnProgress = func(string, api.State) (transport.Reservation,
		error) {
		return *other.Over(api.Released, ""), nil
	}
	g.heard(other.Ending(g.rome, api.ReasonReleased), "Progress r-2 Released")
	g.holds("r-2", api.Released, api.ReasonReleased)
	g.move(11 * time.Minute)
	g.holds("r-1", api.Failed, api.ReasonNotApproved)
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeConflict, "it has moved on")
	}
	g.heard(d.Shown(), "Refuse r-1 NotApproved")
}

// A reservation still waits after a crash. An approval that a restored Ledger lost is restored from our own
// signature.
func TestApprovalSurvives(t *testing.T) {
	journal := memorytest.New()
	rome, milan, clock := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan"), transporttest.NewClock()
	g := open(t, journal, rome, milan, clock, "")
	g.measure("8", approved)
	d := g.deal("r-1", "2")
	d.ByHand(30 * time.Minute)
	g.heard(d.Signed())

	g = open(t, journal, rome, milan, clock, "")
	g.number = 5
	g.measure("8", approved)
	if r := g.ours("r-1"); r == nil || !r.AwaitsApproval() {
		t.Fatalf("it waits no more: %+v", r)
	}
	g.heard(d.Shown())
	g.heard(d.Reserved(milan.Agree(*d.Shown()))) // as it was approved in the life that was lost
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
}

// Only a reservation that an admin approves may wait for an approval.
func TestWaitsNoLongerThanItSays(t *testing.T) {
	g := newGate(t, "8") // where a machine answers
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) { return transport.Reservation{}, nil }
	d := g.deal("r-1", "2")
	d.ByHand(30 * time.Minute)
	g.heard(d.Signed(), "Refuse r-1 BadAssignment")
	g.measure("8", approved)
	d = g.deal("r-2", "2")
	d.ByHand(2 * time.Hour)
	g.heard(d.Signed(), "Refuse r-2 BadAssignment")
}

// A gate that was away while a purchase waited still asks its admin. Without an admin, an old
// assignment is refused.
func TestBoughtLongAgo(t *testing.T) {
	for _, within := range []*metav1.Duration{nil, {Duration: 2 * time.Hour}} {
		g := newGate(t, "8")
		offer, err := trust.Offer(g.milan.Sign(api.DocumentOffer,
			api.SignedOffer{Protocol: api.Protocol, Seller: "milan", Name: "web", Version: 1, Offer: api.OfferSpec{
				ApproveWithin: within, Plans: []api.Plan{{Name: "small", Resources: transporttest.CPU("2")}},
			}}), g.milan.Key.Public())
		if err == nil {
			_, err = g.Market.Do(t.Context(), market.Publish{Offer: offer})
		}
		if err != nil {
			t.Fatal(err)
		}
		d := g.deal("r-1", "2")
		shown := d.ByHand(time.Hour)
		if within == nil {
			shown.Payload.ApproveBy = transporttest.Seconds(g.now().Add(time.Minute))
		}
		a := g.rome.Assignment(*shown)
		a.Sale, a.Begins = &api.Sale{Offer: offer.Digest, Plan: "small",
			Units: 1}, transporttest.Seconds(g.now().Add(-20*time.Minute))
		shown.Payload.Assignment = g.rome.Sign(api.DocumentAssignment, a)
		if g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation,
			error) {
			return transport.Reservation{}, nil
		}; within == nil {
			g.heard(shown, "Refuse r-1 BadAssignment")
			continue
		}
		g.heard(shown)
		if r := g.ours("r-1"); r == nil || !r.AwaitsApproval() || r.Sale == nil {
			t.Errorf("it does not wait: %+v", r)
		}
	}
}
