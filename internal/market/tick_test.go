package market_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// What time alone does: nothing a millisecond early, and then this.
func TestTimePasses(t *testing.T) {
	for name, c := range map[string]struct {
		broker    bool
		given     func(*testBroker)
		after     time.Duration
		before    api.State
		state     api.State
		reason    api.Reason
		provider  string
		available int64
	}{
		"an unsigned hold": {true, func(d *testBroker) { d.held("r", 5) }, market.HoldTime,
			api.Held, api.Expired, api.ReasonNotConfirmed, "rome", 8000},
		"an unanswered hold": {true, func(d *testBroker) { d.signed("r", 5) }, market.HoldTime,
			api.Held, api.Held, "", "milan", 8000},
		"a reservation": {true, func(d *testBroker) { d.reserved("r", 5) }, time.Hour,
			api.Reserved, api.Releasing, api.ReasonEnded, "rome", 3000},
		"an active one": {true, func(d *testBroker) { d.reserved("r", 5); d.must(market.Activate{ID: "r", Consumer: "paris"}) },
			time.Hour,
			api.Active, api.Releasing, api.ReasonEnded, "rome", 3000},
		"an acceptance without its commit": {false, func(d *testBroker) { d.must(assigned("r", 1, 5, "doc")) }, 90 * time.Second,
			api.Held, api.Released, api.ReasonAcceptanceDropped, "rome", 8000},
		"a commitment": {false, func(d *testBroker) {
			d.must(assigned("r", 1, 5, "doc"))
			d.must(market.Commit{ID: "r", Generation: 1})
		}, time.Hour + market.SkewGrace, api.Reserved, api.Releasing, api.ReasonEnded, "rome", 3000},
		"a request of its own that nobody answered": {false, func(d *testBroker) { d.notes(api.Held) },
			market.HoldTime + market.DecideTime,
			api.Held, api.Expired, api.ReasonNotAccepted, "milan", 8000},
		"what it reserved elsewhere": {false, func(d *testBroker) { d.notes(api.Active) }, time.Hour,
			api.Active, api.Releasing, api.ReasonEnded, "milan", 8000},
	} {
		t.Run(name, func(t *testing.T) {
			d := newGate(t)
			if c.broker {
				d = newTestBroker(t)
			}
			c.given(d)
			d.pass(c.after - time.Millisecond)
			if got := d.state.Reservation("r").State; got != c.before {
				t.Errorf("too early: %s, want %s", got, c.before)
			}
			d.pass(time.Millisecond)
			d.want("r", c.state, c.reason, c.provider, c.available)
		})
	}
}

func (d *testBroker) notes(state api.State) {
	d.must(market.Note{Reservation: &market.Reservation{ID: "r",
		State: state, Consumer: "rome", Provider: "milan", Generation: 1,
		HeldUntil: noon + 60_000, Until: noon + 3_600_000}})
}

// Releasing has no end of its own, however long its provider is gone.
func TestReleasingWaitsForItsProvider(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.pass(365 * 24 * time.Hour)
	d.want("r", api.Releasing, api.ReasonEnded, "rome", 3000)
}

func TestWhatIsOverIsForgotten(t *testing.T) {
	d := newTestBroker(t)
	h := request("r", 5)
	h.Key = "key"
	d.must(h)
	d.must(market.CreateToken{Token: market.Token{ID: "t", Hash: "h", Expires: noon + 1000}})
	d.pass(market.HoldTime)
	d.pass(market.Retention - time.Millisecond)
	if d.state.Reservation("r") == nil || d.state.Why("r") == nil {
		t.Error("forgotten too early")
	}
	d.pass(time.Millisecond)
	if d.state.Reservation("r") != nil || d.state.Why("r") != nil ||
		len(d.state.Of("paris", 0)) > 0 || len(d.state.Tokens()) > 0 {
		t.Error("not forgotten")
	}
}

// Every restore of the same journal expires the same reservations in the same order.
func TestDueInOrder(t *testing.T) {
	d := newTestBroker(t)
	for i := range 8 {
		d.held(fmt.Sprintf("r%d", (i*5)%8), 1)
	}
	d.restart(len(d.journal))
	d.now += market.Time(market.HoldTime.Milliseconds())
	for i := range 8 {
		if out := d.must(market.Tick{}); out.Reservation.ID != fmt.Sprintf("r%d", i) {
			t.Errorf("%d. to expire is %s", i, out.Reservation.ID)
		}
	}
}
