package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A provider never says that what its consumer released is free: it is dead, or hostile. After an hour the consumer's caps are free. What the
// provider lists still counts at the provider, until it no longer lists it. The end is remembered until the provider ends it by itself.
func TestAProviderThatNeverFrees(t *testing.T) {
	d := newDesk(t)
	once := market.Caps{Reservations: 1}
	h := capped("r", 2, once)
	h.Candidates, h.Duration = []string{"rome"}, 30*24*time.Hour
	d.must(h)
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"})
	lists := map[string]api.AccountUse{"paris": {Commitments: map[string]api.Resources{"r": resources("cpu", "2")}}}
	d.reports("rome", 2, resources("cpu", "8"), lists)
	d.must(market.Release{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})

	other := capped("s", 1, once)
	other.Candidates = []string{"milan"}
	d.pass(market.FreeTime - time.Minute)
	d.offers("milan", 2, "8")
	d.fails(api.CodeCapReached, other)
	d.want("r", api.Releasing, api.ReasonReleased, "rome", 6000)
	d.pass(time.Minute)
	d.want("r", api.Released, api.ReasonReleased, "rome", 6000)
	d.offers("milan", 3, "8")
	d.must(other)

	d.pass(market.Retention + time.Hour)
	if r := d.state.Reservation("r"); r == nil || r.End != "end" {
		t.Fatalf("rome, when it is back, cannot hear of the end: %s", dump(r))
	}
	d.reports("rome", 3, resources("cpu", "8"), lists)
	d.want("r", api.Released, api.ReasonReleased, "rome", 6000)
	d.offers("rome", 4, "8")
	d.want("r", api.Released, api.ReasonReleased, "rome", 8000)
	d.pass(30 * 24 * time.Hour)
	if r := d.state.Reservation("r"); r != nil {
		t.Errorf("it is remembered for ever: %s", dump(r))
	}
}

// A consumer's agent that hears nothing more of what it released waits until its provider must have ended it by itself, and no longer.
func TestAConsumerThatHearsNothingMore(t *testing.T) {
	d := &desk{node: newNode(t, "paris"), t: t, now: noon}
	d.must(market.Note{Reservation: &market.Reservation{ID: "r", Consumer: "paris", Provider: "rome", Pool: api.GeneralPool, Size: cpu(1), Generation: 1,
		State: api.Reserved, Created: noon, Until: noon + int64Time(24*time.Hour), Assignment: "assignment", Acceptance: "acceptance"}})
	d.must(market.Release{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})
	d.pass(24 * time.Hour)
	if r := d.state.Reservation("r"); r.State != api.Releasing {
		t.Errorf("its end can still be told, and it is %s", r.State)
	}
	d.pass(market.FreeTime)
	if r := d.state.Reservation("r"); r.State != api.Released {
		t.Errorf("it is %s", r.State)
	}
	d.pass(market.FreeTime)
	if r := d.state.Reservation("r"); r != nil {
		t.Errorf("it is remembered for ever: %s", dump(r))
	}
}
