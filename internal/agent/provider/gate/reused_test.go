package gate_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// frees makes the broker accept milan's words about what ends.
func (g *testGate) frees(d *transporttest.Deal) {
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
}

// A broker gives a later reservation the ID of one that is over, and shows the end of the earlier one.
func TestAnOldEndOfAReusedID(t *testing.T) {
	g := newGate(t, "8")
	first := g.bound("2")
	g.frees(first)
	ending := first.Ending(g.rome, api.ReasonReleased)
	old := ending.Payload.End
	g.heard(ending, "Progress r-1 Released")
	g.move(3 * time.Hour)
	g.holds("r-1", "", "")

	second := g.bound("2")
	for _, state := range []api.State{api.Releasing, api.Released} {
		shown := second.Over(state, api.ReasonReleased)
		shown.Payload.End = old
		g.heard(shown)
		g.holds("r-1", api.Reserved, "")
	}
	shown := second.Shown() // and with the assignment that the end names
	shown.Payload.State, shown.Payload.End, shown.Payload.Generation = api.Releasing, old, 5
	shown.Payload.Assignment, shown.Payload.Acceptance = ending.Payload.Assignment, ending.Payload.Acceptance
	g.heard(shown)
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
}

// While documents of a reservation could be shown again, its ID is not used for another one.
func TestAnIDThatIsSpent(t *testing.T) {
	g := newGate(t, "8")
	d := g.bound("2")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *d.Changed(acceptance), nil }
	g.heard(d.Changing("3", ""), "Accept r-1") // for a day
	long := *d.Shown()
	shorter := g.rome.Assignment(long)
	shorter.Generation, shorter.Until = 3, transporttest.Seconds(g.now().Add(time.Hour))
	next := d.Changing("3", g.rome.Sign(api.DocumentAssignment, shorter))
	g.heard(next, "Accept r-1")
	g.frees(d)
	g.heard(d.Ending(g.rome, api.ReasonReleased), "Progress r-1 Released")
	g.move(3 * time.Hour) // longer than it is remembered, and than its last end
	g.holds("r-1", "", "")

	g.lies()
	again := g.deal("r-1", "2")
	g.heard(again.Signed(), "Refuse r-1 BadAssignment")
	g.holds("r-1", "", "")
	g.broker.OnRelease = func(string, string) (transport.Reservation, error) {
		return *d.Ending(g.milan, api.ReasonReleased), nil
	}
	g.heard(&long, "Release r-1") // the longer one, which both signed
	g.holds("r-1", "", "")
	g.left(8000)
}

// An end names a change that this gate accepted and its Ledger lost. The gate restores the change,
// and ends it.
func TestAnEndOfALostChange(t *testing.T) {
	g := newGate(t, "8")
	d := g.bound("2")
	changing := d.Changing("3", "")
	accepted := *changing
	accepted.Payload.Generation, accepted.Payload.Assignment = changing.Payload.Change.Generation, changing.Payload.Change.Assignment
	d.Changed(g.milan.Agree(accepted)) // as its Ledger no longer knows
	g.frees(d)
	ending := d.Ending(g.rome, api.ReasonReleased)
	if err := g.hears(ending); err != nil {
		t.Fatal(err)
	}
	g.holds("r-1", api.Released, api.ReasonReleased)
	g.left(8000)
}
