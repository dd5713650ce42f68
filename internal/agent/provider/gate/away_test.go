package gate_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// ends makes the broker accept an end of milan's, once it has verified it.
func (g *testGate) ends(d *transporttest.Deal, want api.Reason) {
	g.broker.OnRelease = func(id, document string) (transport.Reservation, error) {
		var e api.End
		err := clusterkey.Verify(document, api.DocumentEnd, g.milan.Key.Public(), &e)
		if err != nil || e.Reservation != id || e.By != "milan" ||
			e.Consumer != "rome" || e.Generation != d.Shown().Payload.Generation || e.Reason != want {
			g.t.Errorf("the end says %+v, %v", e, err)
		}
		return *d.Ending(g.milan, e.Reason), nil
	}
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, want), nil
	}
}

// The broker recorded the acceptance and went away. After its deadline the gate drops it, and signs that.
func TestTheCommitNeverComes(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		d.Reserved(acceptance)
		return transport.Reservation{}, transporttest.Away
	}
	signed := d.Signed()
	_ = g.hears(signed)
	g.holds("r-1", api.Held, "")
	g.move(80 * time.Second) // the assignment expired after 60, the acceptance binds for 90
	g.holds("r-1", api.Held, "")
	g.move(20 * time.Second)
	g.holds("r-1", api.Released, api.ReasonAcceptanceDropped)
	g.left(8000)
	g.broker.Asked()
	g.ends(d, api.ReasonAcceptanceDropped)
	g.heard(d.Shown(), "Release r-1") // the broker is back, and believes in it
	g.heard(d.Shown(), "Progress r-1 Released")
	g.heard(d.Shown())
}

// A reservation ends with its time while the broker is away: a little later than at the consumer,
// because clocks differ. Then both sides record the same end.
func TestEndsWithItsTimeWithoutTheBroker(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	g.move(time.Hour)
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
	g.move(time.Minute)
	g.holds("r-1", api.Releasing, api.ReasonEnded)
	g.left(6000) // it counts until somebody has seen to it that it is free
	g.heard(nothing("r-1"))
	g.holds("r-1", api.Released, api.ReasonEnded)
	g.left(8000)
	g.ends(d, api.ReasonEnded)
	g.heard(d.Shown(), "Release r-1") // the broker is back
	g.heard(d.Shown(), "Progress r-1 Released")
}

// nothing returns a state that is older than the one that the gate has seen.
func nothing(id string) *transport.Reservation {
	return &transport.Reservation{ID: id, Payload: api.Reservation{Fence: api.Fence{Lineage: "first"}}}
}

// The gate ignores a state that is older than the one that it has seen.
func TestOldNewsIsNoNews(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.takes(d)
	signed := d.Signed()
	g.heard(signed, "Accept r-1")
	late := d.Ending(g.rome, api.ReasonReleased)
	late.Payload.Fence.Revision = 1
	g.heard(late)
	g.holds("r-1", api.Reserved, "")
	restored := d.Restored() // a restored broker starts with other revisions; the end is signed
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(restored, "Progress r-1 Released")
	g.holds("r-1", api.Released, api.ReasonReleased)
}

// A Ledger that was restored to an older state restores what this cluster accepted since, for as
// long as was agreed, whether or not it fits.
func TestAdoptsWhatItsLedgerLost(t *testing.T) {
	before := newGate(t, "8")
	d := before.deal("r-1", "2")
	before.takes(d)
	before.heard(d.Signed(), "Accept r-1")

	g := open(t, memorytest.New(), before.rome, before.milan, before.clock, "1")
	g.move(10 * time.Minute) // long after the acceptance alone would have ended
	g.heard(d.Shown())
	g.holds("r-1", api.Reserved, "")
	g.heard(d.Shown())
	g.left(6000)
	g.move(50 * time.Minute)
	g.holds("r-1", api.Reserved, "")
	g.move(time.Minute)
	g.holds("r-1", api.Releasing, api.ReasonEnded)
}

// A broker that was restored to before it recorded the acceptance receives it again.
func TestABrokerThatWasRestoredIsToldAgain(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	signed := d.Signed()
	g.takes(d)
	g.heard(signed, "Accept r-1")
	acceptance := d.Shown().Payload.Acceptance
	g.move(10 * time.Minute)
	signed.Payload.Fence = api.Fence{Lineage: "second", Revision: 3}
	g.broker.OnAccept = func(_, again string) (transport.Reservation, error) {
		if again != acceptance {
			t.Error("it is another acceptance")
		}
		return *d.Restored(), nil
	}
	g.heard(signed, "Accept r-1")
	g.holds("r-1", api.Reserved, "")
}
