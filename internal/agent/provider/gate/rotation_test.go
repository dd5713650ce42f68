package gate_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// rotated gives milan a new key, as its agent has it after its next start.
func (g *testGate) rotated() {
	g.t.Helper()
	g.milan.Rotate()
	g.restart(func(o *gate.Options) {
		o.Key, o.Former = g.milan.Key, nil
		for _, f := range trust.Former("milan", o.Key.Public(), g.milan.Rotations) {
			o.Former = append(o.Former, f.Fingerprint)
		}
	})
}

// bound returns a reservation that milan has accepted.
func (g *testGate) bound(cpu string) *transporttest.Deal {
	g.t.Helper()
	d := g.deal("r-1", cpu)
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	return d
}

// A reservation stays when its consumer gets a new key. Either key can end it, and no other.
func TestTheConsumerOfWhatIsBoundGetsANewKey(t *testing.T) {
	for name, c := range map[string]struct {
		by   func(old, now *transporttest.Party) *transporttest.Party
		want api.State
	}{
		"it ends by the new one": {func(_, now *transporttest.Party) *transporttest.Party { return now },
			api.Released},
		"it was ended by the old one": {func(old, _ *transporttest.Party) *transporttest.Party { return old },
			api.Released},
		"somebody else says that it ended": {func(_,
			_ *transporttest.Party) *transporttest.Party {
			return transporttest.NewParty(t, "rome")
		}, api.Reserved},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "8")
			d := g.bound("2")
			old := g.rome.Rotate()
			g.heard(d.Greeted())
			if key, err := trust.Key(t.Context(), g.Market, "rome"); err != nil || key != g.rome.Key.Public() {
				t.Errorf("pinned is %s, %v", key, err)
			}
			d.Ending(nil, api.ReasonReleased)
			shown := d.Shown()
			shown.Payload.End = c.by(old, g.rome).End(*shown, api.ReasonReleased)
			g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
				return *d.Over(api.Released, api.ReasonReleased), nil
			}
			if err := g.hears(shown); err != nil {
				t.Fatal(err)
			}
			if record := g.ours("r-1"); record.State != c.want {
				t.Errorf("it is %s", record.State)
			}
		})
	}
}

// A reservation stays when this cluster gets a new key.
func TestTheProviderOfWhatIsBoundGetsANewKey(t *testing.T) {
	g := newGate(t, "8")
	d := g.bound("2")
	g.rotated()
	g.heard(d.Greeted())
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *d.Changed(acceptance), nil }
	g.heard(d.Changing("3", ""), "Accept r-1")
	if record := g.ours("r-1"); record.Generation != 2 || record.Size.Of("cpu") != 3000 {
		t.Errorf("lent is %+v", record)
	}
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(d.Ending(g.rome, api.ReasonReleased), "Progress r-1 Released")
	g.holds("r-1", api.Released, api.ReasonReleased)
}

// An assignment that names a former key of this cluster is for this cluster. One signed with a
// former key of its consumer is invalid.
func TestAnAssignmentOfBeforeARotation(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	shown := d.Signed()
	g.rotated()
	g.takes(d)
	g.heard(shown, "Accept r-1")
	g.holds("r-1", api.Reserved, "")

	e := g.deal("r-2", "2")
	e.Signed()
	g.rome.Rotate()
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		return *e.Over(api.Failed, api.ReasonNotAccepted), nil
	}
	g.heard(e.Greeted(), "Refuse r-2 "+string(api.ReasonBadAssignment))
	g.holds("r-2", "", "")
}

// An acceptance gives way to the assignment that the consumer signs again.
func TestAHoldThatIsSignedAnew(t *testing.T) {
	g := newGate(t, "2")
	d := g.deal("r-1", "2")
	g.broker.OnAccept = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, transporttest.Away
	}
	if err := g.hears(d.Signed()); err == nil {
		t.Fatal("the broker was there")
	}
	g.broker.Asked()
	g.holds("r-1", api.Held, "")
	g.rome.Rotate()
	g.heard(d.Again())
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.left(0)
}

// A Ledger that lost everything restores what this cluster accepted of a consumer that has a new
// key since. It does not restore what this cluster accepted with a former key of its own: a thief
// of that key could have signed it.
func TestALedgerThatLostEverythingAfterARotation(t *testing.T) {
	g := newGate(t, "8")
	d := g.bound("2")
	g.rome.Rotate()
	lost := open(t, memorytest.New(), g.rome, g.milan, g.clock, "8")
	lost.heard(d.Greeted())
	lost.holds("r-1", api.Reserved, "")

	lost = open(t, memorytest.New(), g.rome, g.milan, g.clock, "8")
	lost.rotated()
	lost.waits(d.Greeted(), api.CodeConflict)
	lost.holds("r-1", "", "")
}

// The gate ends what it does not restore, once it can no longer accept it. The time in a document
// that was made with a stolen key holds up neither the consumer's caps nor this cluster's capacity.
func TestTheGateEndsWhatItDoesNotTake(t *testing.T) {
	for name, show := range map[string]func(g *testGate, d *transporttest.Deal) *transport.Reservation{
		"by a former key": func(g *testGate, d *transporttest.Deal) *transport.Reservation {
			stolen := g.milan.Key
			g.rotated()
			d.Signed()
			thief := *g.milan
			thief.Key = stolen
			return d.Reserved(thief.Agree(*d.Shown()))
		},
		"of another assignment": func(g *testGate, d *transporttest.Deal) *transport.Reservation {
			other := g.deal("r-1", "1").Signed()
			d.Signed()
			return d.Reserved(g.milan.Agree(*other))
		},
		"in a slice that cannot be": func(g *testGate, d *transporttest.Deal) *transport.Reservation {
			a := g.rome.Assignment(*d.Shown())
			a.Slice = "b-general-other"
			d.Signed()
			shown := d.Shown()
			shown.Payload.Assignment = g.rome.Sign(api.DocumentAssignment, a)
			shown.Payload.State, shown.Payload.Acceptance = api.Reserved, g.milan.Agree(*shown)
			return shown
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "8")
			d := g.deal("r-1", "2")
			shown := show(g, d)
			g.waits(shown, api.CodeConflict)
			g.move(2 * time.Minute)
			g.ends(d, api.ReasonNotAccepted)
			g.heard(shown, "Release r-1")
			g.holds("r-1", "", "")
			g.left(8000)
		})
	}
}

// A gate that lost its Ledger does not end what it accepted because the broker shows an invalid
// card. It restores the reservation when the right card comes.
func TestACardDoesNotEndWhatWasAccepted(t *testing.T) {
	g := newGate(t, "8")
	d := g.bound("2")
	lost := open(t, memorytest.New(), g.rome, g.milan, g.clock, "8")
	lost.move(3 * time.Minute)
	for name, card := range map[string]string{"none": "", "nonsense": "nonsense",
		"another's": g.milan.Card(api.Properties{})} {
		shown := d.Shown()
		shown.Payload.ConsumerCard = card
		if err := lost.hears(shown); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		if asked := lost.broker.Asked(); len(asked) > 0 {
			t.Errorf("%s: the gate says %q", name, asked)
		}
	}
	if err := lost.hears(d.Shown()); err != nil {
		t.Error(err)
	}
	lost.holds("r-1", api.Reserved, "")
	lost.left(6000)
}
