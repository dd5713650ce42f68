package market_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A provider never says that what its consumer released is free: it is dead, or hostile. After an
// hour the consumer's caps are free. What the provider lists still counts at the provider, until it
// no longer lists it. The end is remembered until the provider ends it by itself.
func TestAProviderThatNeverFrees(t *testing.T) {
	d := newTestBroker(t)
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

// An end that a provider has not heard of does not make way for others: not for what is cancelled,
// and not for further such ends, which the cap on bytes bounds.
func TestAnEndThatIsNotHeardIsNotForgotten(t *testing.T) {
	d := newTestBroker(t)
	s, now := d.state, d.now
	offers := func(cluster string, number int64) {
		t.Helper()
		all := resources("cpu", "8")
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
			Pools: map[string]api.Pool{"general": {Capacity: all, Allocatable: all, Shared: all}}})
		if err == nil {
			err = s.Observe(cluster, m, now, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	do := func(c market.Command) error {
		t.Helper()
		out, err := market.Decide(s, c, now)
		for err == nil && len(out.Events) > 0 {
			for _, e := range out.Events {
				s.Apply(e)
			}
			out, err = market.Decide(s, market.Tick{}, now)
		}
		return err
	}
	must := func(c market.Command) {
		t.Helper()
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(id string) (*market.Hold, error) {
		h := request(id, 1)
		h.Key, h.Caps.Bytes = "key-"+id, 64<<10
		h.Candidates, h.Duration = []string{"rome"}, 365*24*time.Hour
		if err := do(h); err != nil {
			return h, err
		}
		must(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: "assignment"})
		must(market.Accept{ID: id, Provider: "rome", Generation: 1, Document: "acceptance"})
		must(market.Release{ID: id, By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})
		return h, nil
	}
	anHourPasses := func() {
		now += int64Time(market.FreeTime)
		must(market.Tick{})
	}
	h, err := bind("r")
	if err != nil {
		t.Fatal(err)
	}
	until := s.Reservation("r").Until
	anHourPasses()
	if out, err := market.Decide(s, h, now); err != nil || out.Reservation.ID != "r" ||
		out.Reservation.State != api.Released || len(out.Events) > 0 {
		t.Errorf("its request, once more: %s, %v", dump(out.Reservation), err)
	}
	offers("milan", 2)
	for i := range 800 {
		id := fmt.Sprint("x-", i)
		must(large(id))
		must(market.Release{ID: id, By: "paris", Generation: 1})
	}
	if s.MemoryUse().Early == 0 {
		t.Fatal("nothing was forgotten early")
	}
	ended := 0
	for ; err == nil && ended < 100; ended++ {
		offers("rome", int64(2+ended))
		_, err = bind(fmt.Sprint("y-", ended))
		anHourPasses()
	}
	if api.CodeOf(err) != api.CodeCapReached || ended < 5 || ended > 60 {
		t.Errorf("%d more ends are not heard of, and then: %v", ended, err)
	}
	if got := s.Of("rome", 0); len(got) < 5 || got[0].ID != "r" || s.Of("paris", 0)[0].ID != "r" {
		t.Errorf("rome hears of %d", len(got))
	}
	back := market.Adopt{Assignment: api.Assignment{Protocol: 1,
		Reservation: "r", Generation: 1, Consumer: "paris", Provider: "rome", Pool: api.GeneralPool,
		Until: until.Meta()}, Size: cpu(1), Document: "assignment", Acceptance: "acceptance"}
	if out, err := market.Decide(s, back, now); err != nil || out.Reservation.State != api.Released ||
		out.Reservation.End != "end" {
		t.Errorf("rome shows it: %s, %v", dump(out.Reservation), err)
	}
}

// A consumer's agent that hears nothing more of what it released waits until its provider must have
// ended it by itself, and no longer.
func TestAConsumerThatHearsNothingMore(t *testing.T) {
	d := &testBroker{node: newNode(t, "paris"), t: t, now: noon}
	d.must(market.Note{Reservation: &market.Reservation{ID: "r",
		Consumer: "paris", Provider: "rome", Pool: api.GeneralPool, Size: cpu(1), Generation: 1,
		State: api.Reserved, Created: noon, Until: noon +
			int64Time(24*time.Hour), Assignment: "assignment", Acceptance: "acceptance"}})
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
