package gate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// lends returns a gate that lends 2 CPUs.
func lends(t *testing.T) (*testGate, *transporttest.Deal) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *d.Changed(acceptance), nil }
	return g, d
}

// has checks the size of the reservation in the Ledger, and what is left.
func (g *testGate) has(generation, milli, left int64) {
	g.t.Helper()
	g.holds("r-1", api.Reserved, "")
	if r := g.ours("r-1"); r.Generation != generation || r.Size.Of("cpu") != milli {
		g.t.Fatalf("it lends %d at generation %d, want %d at %d", r.Size.Of("cpu"), r.Generation, milli, generation)
	}
	g.left(left)
}

func TestChanges(t *testing.T) {
	g, d := lends(t)
	g.heard(d.Changing("6", ""), "Accept r-1")
	g.has(2, 6000, 2000)
	if until := g.ours("r-1").Until.Go(); until.Sub(g.now()) < 23*time.Hour {
		t.Errorf("it lasts until %s", until)
	}
	g.heard(d.Shown())
	g.heard(d.Changing("1", ""), "Accept r-1")
	g.has(3, 1000, 7000)
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(d.Ending(g.rome, api.ReasonReleased), "Progress r-1 Released")
	g.left(8000)
}

// A change that does not fit, or that the policy forbids, is refused, and the reservation stays. A
// smaller size is never refused.
func TestRefusesAChange(t *testing.T) {
	g, d := lends(t)
	no := api.Reason("")
	g.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		if r.Generation != d.Shown().Payload.Change.Generation {
			t.Errorf("it refuses generation %d", r.Generation)
		}
		no = r.Reason
		return *d.Unchanged(r.Reason), nil
	}
	g.heard(d.Changing("9", ""), "Refuse r-1 Insufficient")
	g.has(1, 2000, 6000)
	g.heard(d.Shown())
	g.measure("8", func(m *api.Measurement) { m.Terms.Allow = "false" })
	g.heard(d.Changing("3", ""), "Refuse r-1 PolicyRefuses")
	g.has(1, 2000, 6000)
	stranger := transporttest.NewDeal(transporttest.NewParty(t, "rome"), g.milan, "r-1", "1", g.now())
	g.heard(d.Changing("1", stranger.Signed().Payload.Assignment), "Refuse r-1 BadAssignment")
	g.has(1, 2000, 6000)
	if no != api.ReasonBadAssignment {
		t.Errorf("it was refused for %s", no)
	}
	less := d.Changing("1", "")
	less.Payload.Change.Assignment = g.rome.Sign(api.DocumentAssignment, func() api.Assignment {
		r := *less
		r.Payload.Generation, r.Payload.Resources = less.Payload.Change.Generation, less.Payload.Change.Resources
		r.Payload.HeldUntil = less.Payload.Change.HeldUntil
		return g.rome.Assignment(r) // which lasts no longer
	}())
	g.broker.OnAccept = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, transporttest.Away
	}
	if err := g.hears(less); !errors.Is(err, transporttest.Away) {
		t.Errorf("%v", err)
	}
	if r := g.ours("r-1"); r.Changing() == nil || !r.Usage().Equal(r.Size) {
		t.Errorf("less is not admitted: %+v", r)
	}
}

// Until the gate knows whether the broker recorded the answer, both sizes count; then the one that
// the broker shows.
func TestAnswerToAChangeLost(t *testing.T) {
	for name, c := range map[string]struct {
		then                   func(*testGate, *transporttest.Deal, string) *transport.Reservation
		generation, lent, left int64
	}{
		"it was recorded": {func(_ *testGate, d *transporttest.Deal, acceptance string) *transport.Reservation {
			return d.Changed(acceptance)
		}, 2, 5000, 3000},
		"it came too late": {func(_ *testGate, d *transporttest.Deal, _ string) *transport.Reservation {
			return d.Unchanged(api.ReasonNoAnswer)
		}, 1, 2000, 6000},
		"recorded, and dropped here": {func(g *testGate, d *transporttest.Deal, acceptance string) *transport.Reservation {
			_, err := g.Market.Do(g.t.(*testing.T).Context(),
				market.Refuse{ID: "r-1", By: "milan", Generation: 2, Reason: api.ReasonNotAccepted})
			if err != nil {
				g.t.Fatal(err)
			}
			return d.Changed(acceptance)
		}, 2, 5000, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			g, d := lends(t)
			sent := map[string]bool{}
			acceptance := ""
			g.broker.OnAccept = func(_, document string) (transport.Reservation, error) {
				sent[document], acceptance = true, document
				return transport.Reservation{}, transporttest.Away
			}
			shown := d.Changing("5", "")
			for range 2 {
				if err := g.hears(shown); !errors.Is(err, transporttest.Away) {
					t.Fatalf("the broker is away: %v", err)
				}
				g.left(3000)
			}
			if len(sent) != 1 {
				t.Errorf("%d different acceptances of one assignment", len(sent))
			}
			g.broker.Asked()
			g.heard(c.then(g, d, acceptance))
			g.has(c.generation, c.lent, c.left)
		})
	}
}

// A broker lies about a change: what this cluster never accepted does not bind it.
func TestALyingBrokerChanges(t *testing.T) {
	g, d := lends(t)
	shown := d.Changing("8", "")
	g.heard(d.Changed("x"))
	g.has(1, 2000, 6000)
	shown.Payload.Change.Generation = 1
	g.heard(shown)
	g.has(1, 2000, 6000)
}

// A broker that was restored to before a change asks again. It receives the acceptance that already binds.
func TestABrokerRestoredFromBeforeAChange(t *testing.T) {
	g, d := lends(t)
	asked := d.Changing("5", "")
	g.heard(asked, "Accept r-1")
	bound := g.ours("r-1").Acceptance
	asked.Payload.Fence = api.Fence{Lineage: "second", Revision: 1}
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		if acceptance != bound {
			t.Error("it gives another answer")
		}
		return *d.Shown(), nil
	}
	g.heard(asked, "Accept r-1")
	g.has(2, 5000, 3000)
}

// A broker that kept an acceptance back cannot show it later, when the capacity is another consumer's.
func TestAnAcceptanceThatWasKeptBack(t *testing.T) {
	g, d := lends(t)
	acceptance := ""
	g.broker.OnAccept = func(_, document string) (transport.Reservation, error) {
		acceptance = document
		return transport.Reservation{}, transporttest.Away
	}
	if err := g.hears(d.Changing("6", "")); !errors.Is(err, transporttest.Away) {
		t.Fatal(err)
	}
	g.broker.Asked()
	kept := *d.Shown()
	g.heard(d.Unchanged(api.ReasonNoAnswer))
	g.left(6000)
	other := g.deal("r-2", "6")
	g.takes(other)
	g.heard(other.Signed(), "Accept r-2")
	g.left(0)
	c := kept.Payload.Change
	kept.Payload.Generation, kept.Payload.Resources, kept.Payload.Until, kept.Payload.Assignment = c.Generation, c.Resources, c.Until, c.Assignment
	kept.Payload.Acceptance, kept.Payload.Change = acceptance, nil
	kept.Payload.Fence.Revision += 100
	g.heard(&kept)
	g.left(0)
	if r := g.ours("r-1"); r.Generation != 1 {
		t.Errorf("it took back %+v", r)
	}
}

// A suspended consumer gets nothing new, larger or longer. It may have less, and what it has stays.
func TestASuspendedConsumer(t *testing.T) {
	g, d := lends(t)
	g.suspends("the bill is open")
	said := ""
	g.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		said = r.Message
		return *d.Unchanged(r.Reason), nil
	}
	g.heard(d.Changing("3", ""), "Refuse r-1 SuspendedByProvider") // more
	if !strings.Contains(said, "the bill is open") {
		t.Errorf("the consumer is told %q", said)
	}
	g.heard(d.Shown())
	g.heard(d.Changing("2", ""), "Refuse r-1 SuspendedByProvider") // longer
	g.heard(d.Shown())
	g.has(1, 2000, 6000)
	other := g.deal("r-2", "1")
	g.heard(other.Signed(), "Refuse r-2 SuspendedByProvider")
	g.left(6000)

	g.suspends("")
	g.heard(d.Changing("4", ""), "Accept r-1")
	g.has(4, 4000, 4000)
}

// suspends makes milan's admin suspend rome; an empty message lets rome borrow again.
func (g *testGate) suspends(why string) {
	g.t.Helper()
	if _, err := g.Market.Do(context.Background(), market.Suspend{Cluster: "rome", Why: why}); err != nil {
		g.t.Fatal(err)
	}
}

// A suspension, or another policy, counts also if it comes while an assignment is being checked.
func TestSuspendedWhileItIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*testGate)
		want      string
	}{
		"the consumer is suspended":  {func(g *testGate) { g.suspends("the bill is open") }, "Refuse r-1"},
		"nothing is shared any more": {func(g *testGate) { g.measure("8", func(m *api.Measurement) { m.Terms = nil }) }, ""},
		"another policy": {func(g *testGate) {
			g.measure("8",
				func(m *api.Measurement) { m.Terms.Allow = "false" })
		}, ""},
		"the same policy": {func(g *testGate) { g.measure("8", nil) }, "Accept r-1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "8")
			once := sync.OnceFunc(func() { c.meanwhile(g) })
			g.Trust.Met = func(string, clusterkey.PublicKey, error) { once() } // called after the policy, before the Ledger
			d := g.deal("r-1", "2")
			_ = g.Sync(t.Context(), d.Signed(), nil)
			asked := g.broker.Asked()
			if got := strings.Join(asked, " "); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the broker is told %q, want %q", got, c.want)
			}
			if r := g.ours("r-1"); (r != nil) != (c.want == "Accept r-1") {
				t.Errorf("the Ledger says %+v", r)
			}
		})
	}
}

// A suspension counts also if it comes while an assignment waits for approval.
func TestSuspendedBeforeItIsApproved(t *testing.T) {
	g := newGate(t, "8")
	g.measure("8", func(m *api.Measurement) { m.Terms.ApproveWithin = &metav1.Duration{Duration: time.Hour} })
	d := g.deal("r-1", "2")
	d.ByHand(time.Hour)
	_ = g.Sync(t.Context(), d.Signed(), nil)
	if r := g.ours("r-1"); r == nil || !r.AwaitsApproval() {
		t.Fatalf("it is %+v", r)
	}
	g.suspends("the bill is open")
	if err := g.Approve(t.Context(), "r-1", 0); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("approved: %v", err)
	}
	g.suspends("")
	if err := g.Approve(t.Context(), "r-1", 0); err != nil {
		t.Error(err)
	}
}
