package market_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// byHand makes rome, of those that offer 8 cpu, one where a person approves.
func (d *testBroker) byHand(within time.Duration) {
	d.t.Helper()
	all := resources("cpu", "8")
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 2},
		Terms: &api.Terms{ApproveWithin: &metav1.Duration{Duration: within}},
		Pools: map[string]api.Pool{"general": {Capacity: all, Allocatable: all, Shared: all}}})
	if err == nil {
		err = d.observe("rome", m, d.now)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// A hold waits as long as its provider says that a person there may take, once its consumer has
// signed; then it moves on.
func TestHoldAwaitsApproval(t *testing.T) {
	d := newTestBroker(t)
	d.byHand(30 * time.Minute)
	d.must(request("r", 5))
	r := d.state.Reservation("r")
	if r.HeldUntil != noon+60_000 || r.ApproveBy != noon+30*60_000 || r.Deadline != r.ApproveBy || r.AwaitsApproval() {
		t.Errorf("held as %s", dump(r))
	}
	if a := market.AssignmentOf(r, "c", "p"); !a.Expires.Time.Equal(r.ApproveBy.Go()) {
		t.Errorf("the consumer signs that it expires at %v", a.Expires)
	}
	d.must(request("unsigned", 1))
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "doc"})
	d.pass(time.Minute)
	d.want("unsigned", api.Expired, api.ReasonNotConfirmed, "rome", 3000) // who does not sign does not hold it for longer
	d.pass(28 * time.Minute)
	if r = d.state.Reservation("r"); !r.AwaitsApproval() || r.Provider != "rome" {
		t.Errorf("it waits no more: %s", dump(r))
	}
	d.offers("milan", 2, "8")
	d.pass(time.Minute)
	r = d.state.Reservation("r")
	if r.State != api.Failed || r.Reason != api.ReasonNotAccepted ||
		r.Message != "no provider accepted: rome: NotApproved: nobody there approved it in time" {
		t.Errorf("in the end it is %s", dump(r))
	}
}

// A no moves it on to the next best, for as long as it has a deadline.
func TestRefusedApprovalMovesOn(t *testing.T) {
	d := newTestBroker(t)
	d.byHand(30 * time.Minute)
	d.must(request("r", 5))
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "doc"})
	d.pass(20 * time.Minute)
	d.offers("milan", 2, "8")
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonNotApproved, Message: "not you"})
	d.want("r", api.Held, "", "milan", 8000) // and nothing of rome
	if r := d.state.Reservation("r"); r.ApproveBy != 0 || r.HeldUntil != d.now+60_000 {
		t.Errorf("held as %s", dump(r))
	}
}

// Nobody waits for longer than the reservation lasts, nor, over all providers, for more than a day.
func TestApprovalIsBounded(t *testing.T) {
	d := newTestBroker(t)
	d.byHand(24 * time.Hour)
	d.must(request("short", 1))
	if r := d.state.Reservation("short"); r.ApproveBy != r.Until {
		t.Errorf("it waits beyond its end: %s", dump(r))
	}
	for _, within := range []time.Duration{-1, 0, time.Second, 25 * time.Hour} {
		_, err := market.MeasureTerms(&api.Terms{ApproveWithin: &metav1.Duration{Duration: within}})
		if api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", within, err)
		}
	}
}

// waiting is what assigned is where a person has to approve it, within ten minutes.
func waiting(id string, cores int64) market.Admit {
	a := assigned(id, 1, cores, "doc "+id)
	a.Acceptance, a.ApproveBy, a.BindsUntil = "", noon+600_000, noon+630_000
	return a
}

func TestGateAwaitsApproval(t *testing.T) {
	d := newGate(t)
	yes := market.Approve{ID: "r", Generation: 1, Acceptance: "yes"}
	d.fails(api.CodeNotFound, yes)
	d.must(waiting("r", 5))
	d.want("r", api.Held, "", "rome", 3000) // it counts
	if out := d.must(waiting("r", 5)); len(out.Events) > 0 {
		t.Errorf("asked twice: %s", dump(out.Events))
	}
	d.fails(api.CodeInsufficient, waiting("s", 5))
	d.fails(api.CodeConflict, market.Commit{ID: "r", Generation: 1}) // a broker cannot approve
	d.fails(api.CodeConflict, market.Approve{ID: "r", Generation: 2, Acceptance: "yes to another"})
	d.must(yes)
	d.fails(api.CodeConflict, market.Deny{ID: "r", Generation: 1})
	d.must(market.Commit{ID: "r", Generation: 1})
	d.want("r", api.Reserved, "", "rome", 3000)
	if out := d.must(yes); len(out.Events) > 0 {
		t.Errorf("approved twice: %s", dump(out.Events))
	}
	d.must(assigned("by machine", 1, 1, "doc"))
	d.fails(api.CodeConflict, market.Deny{ID: "by machine", Generation: 1})
}

func TestGateDenies(t *testing.T) {
	d := newGate(t)
	d.must(waiting("r", 5))
	no := market.Deny{ID: "r", Generation: 1, Message: "not you"}
	d.must(no)
	d.want("r", api.Failed, api.ReasonNotApproved, "rome", 8000)
	if out := d.must(no); len(out.Events) > 0 {
		t.Errorf("denied twice: %s", dump(out.Events))
	}
	d.fails(api.CodeConflict, market.Approve{ID: "r", Generation: 1, Acceptance: "yes"})
	d.fails(api.CodeConflict, waiting("r", 5)) // what was denied is not asked again
	d.must(waiting("late", 5))
	d.pass(10*time.Minute + 29*time.Second)
	d.want("late", api.Held, "", "rome", 3000)
	d.pass(time.Second)
	d.want("late", api.Failed, api.ReasonNotApproved, "rome", 8000)
}

// A consumer's own record waits as long as its provider may.
func TestConsumerAwaitsApproval(t *testing.T) {
	d := newGate(t)
	d.must(market.Note{Reservation: &market.Reservation{ID: "own",
		State: api.Held, Consumer: "rome", Provider: "milan", Pool: "general", Size: cpu(1),
		Generation: 1, Assignment: "doc", HeldUntil: noon + 60_000, ApproveBy: noon + 3_600_000, Until: noon + 36_000_000}})
	d.pass(time.Hour + market.DecideTime - time.Second)
	d.want("own", api.Held, "", "milan", 8000)
	d.pass(time.Second)
	d.want("own", api.Expired, api.ReasonNotAccepted, "milan", 8000)
}
