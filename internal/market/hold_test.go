package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestHold(t *testing.T) {
	d := newTestBroker(t)
	out := d.must(request("r", 5))
	d.want("r", api.Held, "", "rome", 3000)
	r := out.Reservation
	if r.Generation != 1 || r.HeldUntil != noon+60_000 || r.Deadline != noon+300_000 ||
		r.Until != noon+3_600_000 || len(r.Next) != 1 {
		t.Errorf("held as %s", dump(r))
	}
	if want := (api.Sequence{Incarnation: 1, Number: 1}); out.Decision.Chosen != "rome" ||
		out.Decision.Sequence != want || out.Decision.Considered != 3 {
		t.Errorf("decided %s", dump(out.Decision))
	}
	if d.state.Why("r") == nil {
		t.Error("the decision is not kept")
	}
	d.must(request("s", 5))
	d.want("s", api.Held, "", "milan", 3000) // rome has no room any more
	d.fails(api.CodeInsufficient, request("t", 5))
}

func TestHoldErrors(t *testing.T) {
	change := func(change func(*market.Hold)) *market.Hold {
		h := request("new", 1)
		change(h)
		return h
	}
	for name, c := range map[string]struct {
		hold *market.Hold
		want api.Code
	}{
		"of a stranger":         {change(func(h *market.Hold) { h.Consumer = "oslo" }), api.CodeNotMember},
		"of one that waits":     {change(func(h *market.Hold) { h.Consumer = "nice" }), api.CodeNotMember},
		"of a suspended member": {change(func(h *market.Hold) { h.Consumer = "lyon" }), api.CodeSuspended},
		"with a known ID":       {change(func(h *market.Hold) { h.ID = "known" }), api.CodeConflict},
		"with a reused key":     {change(func(h *market.Hold) { h.Key, h.Digest = "key", "other" }), api.CodeKeyReused},
		"with a broken key":     {change(func(h *market.Hold) { h.Key = "a\xff" }), api.CodeInvalid},
		"too large":             {change(func(h *market.Hold) { h.Size = cpu(9) }), api.CodeInsufficient},
		"of what nobody has": {change(func(h *market.Hold) {
			h.Size = amounts.List{{Resource: "example.com/fpga",
				Value: 1}}
		}), api.CodeInsufficient},
		"of an unknown pool":    {change(func(h *market.Hold) { h.Pool = "gpu" }), api.CodeInsufficient},
		"on a suspended member": {change(func(h *market.Hold) { h.Candidates = []string{"lyon"} }), api.CodeInsufficient},
		"on a stranger":         {change(func(h *market.Hold) { h.Candidates = []string{"oslo"} }), api.CodeInsufficient},
		"on itself": {change(func(h *market.Hold) { h.Consumer = "rome"; h.Candidates = []string{"rome"} }),
			api.CodeInsufficient},
		"on a mute member": {change(func(h *market.Hold) { h.Candidates = []string{"paris"} }), api.CodeInsufficient},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.offers("lyon", 1, "8")
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "lyon", State: api.MemberSuspended}},
				market.Event{Time: noon, Member: &market.Member{Cluster: "nice", State: api.MemberPending}})
			known := request("known", 1)
			known.Key = "key"
			d.must(known)
			d.fails(c.want, c.hold)
		})
	}
}

// A retry after a lost answer finds the reservation of the first call, in its present state.
func TestHoldAgainWithTheSameKey(t *testing.T) {
	d := newTestBroker(t)
	repeat := func(id string) *market.Hold {
		h := request(id, 5)
		h.Key = "key"
		return h
	}
	d.must(repeat("r"))
	d.must(market.Release{ID: "r", By: "paris", Generation: 1})
	out := d.must(repeat("r2"))
	if len(out.Events) > 0 || out.Reservation.ID != "r" || out.Reservation.State != api.Failed ||
		out.Decision.Chosen != "rome" {
		t.Errorf("repeated: %s", dump(out))
	}
	other := repeat("r2")
	other.Consumer = "milan" // keys are each consumer's own
	if out := d.must(other); out.Reservation.ID != "r2" {
		t.Errorf("another's key: %s", dump(out))
	}
	d.pass(market.Retention)
	d.offers("rome", 2, "8")
	if out := d.must(repeat("r3")); out.Reservation.ID != "r3" {
		t.Errorf("after its retention the key makes %s", out.Reservation.ID)
	}
}

func TestNoCandidates(t *testing.T) {
	d := newTestBroker(t)
	h := request("r", 1)
	h.Candidates = nil
	d.must(h)
	d.want("r", api.Rejected, api.ReasonNoCandidate, "", 8000)
	if d.state.Why("r") == nil {
		t.Error("a rejection has no explanation")
	}
}

func TestSilentProvidersAreNotSoldFrom(t *testing.T) {
	d := newTestBroker(t)
	d.now += market.Time(market.Lease.Milliseconds()) - 1
	d.held("r", 1)
	d.now++
	d.fails(api.CodeInsufficient, request("s", 1))
	d.offers("rome", 2, "8")
	d.held("t", 1)
}

func TestWhatACheckpointSaysIsShownButNotSold(t *testing.T) {
	d := newTestBroker(t)
	m := d.listing("rome").Measured
	d.restart(len(d.journal))
	if err := d.state.Observe("rome", m, d.now, false); err != nil {
		t.Fatal(err)
	}
	if err := d.twin.Observe("rome", m, d.now, false); err != nil {
		t.Fatal(err)
	}
	if l := d.listing("rome"); d.available("rome") != 8000 || l.Fresh(d.now) {
		t.Errorf("listed as %s", dump(l))
	}
	d.fails(api.CodeInsufficient, request("r", 1))
	d.offers("rome", 1, "8") // the same advertisement, now from its agent
	d.held("r", 1)
}

func TestTermsLimitHolds(t *testing.T) {
	d := newTestBroker(t)
	all := resources("cpu", "8")
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 2, Number: 1},
		Terms: &api.Terms{MaxPerReservation: resources("cpu", "3"), MaxPerConsumer: resources("cpu", "4")},
		Pools: map[string]api.Pool{"general": {Allocatable: all, Shared: all}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.observe("rome", m, d.now); err != nil {
		t.Fatal(err)
	}
	only := func(id string, cores int64) *market.Hold {
		h := request(id, cores)
		h.Candidates = []string{"rome"}
		return h
	}
	d.fails(api.CodeInsufficient, only("large", 4))
	d.must(only("a", 3))
	d.fails(api.CodeInsufficient, only("b", 2))
	d.must(only("c", 1))
	other := only("d", 3)
	other.Consumer = "milan"
	d.must(other)
	if got := d.pool("rome").Accounts["paris"].Of("cpu"); got != 4000 {
		t.Errorf("the limited account of paris is listed with %d", got)
	}
}

// After a refusal, or no answer, a hold moves to the next best provider and is signed again, until its deadline.
func TestHoldMovesOn(t *testing.T) {
	d := newTestBroker(t)
	d.signed("r", 5)
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonPolicy, Message: "not you"})
	d.want("r", api.Held, "", "milan", 8000)
	r := d.state.Reservation("r")
	if r.Generation != 2 || r.Assignment != "" || len(r.Tried) != 1 || r.Tried[0].Reason != api.ReasonPolicy {
		t.Errorf("moved as %s", dump(r))
	}
	d.fails(api.CodeConflict, market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 2, Document: "assignment 2"})
	d.fails(api.CodeNotFound, market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "late"})
	d.fails(api.CodeConflict, market.Accept{ID: "r", Provider: "milan", Generation: 1, Document: "old"})
	d.pass(market.HoldTime)
	d.want("r", api.Failed, api.ReasonNotAccepted, "milan", 8000)
	if r := d.state.Reservation("r"); len(r.Tried) != 2 || r.Tried[1].Reason != api.ReasonNoAnswer || r.Message == "" {
		t.Errorf("failed as %s", dump(r))
	}
}

// A consumer may say no to a provider as long as it has not signed.
func TestHoldMovesOnWhenTheConsumerRefuses(t *testing.T) {
	d := newTestBroker(t)
	d.held("r", 5)
	d.must(market.Refuse{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonUnreachable})
	d.want("r", api.Held, "", "milan", 8000)
	if tried := d.state.Reservation("r").Tried; len(tried) != 1 ||
		tried[0].Provider != "rome" || tried[0].Reason != api.ReasonUnreachable {
		t.Errorf("tried %+v", tried)
	}
}

func TestHoldDoesNotMoveAfterItsDeadline(t *testing.T) {
	d := newTestBroker(t)
	d.signed("r", 5)
	d.now += market.Time(market.DecideTime.Milliseconds())
	d.offers("milan", 2, "8")
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonInsufficient})
	d.want("r", api.Failed, api.ReasonNotAccepted, "rome", 8000)
}

func TestHoldMovesOnlyToWhereThereIsRoom(t *testing.T) {
	d := newTestBroker(t)
	d.held("r", 5)
	other := request("s", 5)
	other.Candidates = []string{"milan"}
	d.must(other)
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonInsufficient})
	d.want("r", api.Failed, api.ReasonNotAccepted, "rome", 8000)
}

func TestHoldEndsBeforeItsDeadline(t *testing.T) {
	d := newTestBroker(t)
	d.held("r", 1)
	d.now += market.Time(market.DecideTime.Milliseconds()) - 10_000
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	if r := d.state.Reservation("r"); r.HeldUntil != r.Deadline {
		t.Errorf("held until %v, after its deadline %v", r.HeldUntil.Go(), r.Deadline.Go())
	}
}

func TestAssignmentIsWholeSeconds(t *testing.T) {
	d := newTestBroker(t)
	d.now += 999
	a := market.AssignmentOf(d.held("r", 1), "ck", "pk")
	if a.Until.UnixMilli() != int64(noon)+3_600_000 || a.Expires.Sub(noon.Go()) != time.Minute ||
		a.Slice != market.SliceName("paris", "rome", "general") {
		t.Errorf("to sign: %s", dump(a))
	}
}

// A command may be decided more than once: each decision has a record and an explanation of its own.
func TestEachDecisionHasItsOwnRecord(t *testing.T) {
	d := newTestBroker(t)
	c := request("r", 1)
	market.Prepare(c)
	var outs []market.Outcome
	for range 2 {
		out, err := market.Decide(d.state, c, d.now)
		if err != nil {
			t.Fatal(err)
		}
		if why := out.Events[0].Reservation.Why; string(why) != string(market.Explain(out.Decision)) {
			t.Errorf("kept %s of %s", why, dump(out.Decision))
		}
		outs = append(outs, out)
	}
	if outs[0].Reservation == outs[1].Reservation || outs[0].Decision == outs[1].Decision {
		t.Error("two decisions completed one record")
	}
	if a, b := encode(t, outs[0].Events[0]), encode(t, outs[1].Events[0]); string(a) != string(b) {
		t.Errorf("the first became\n%s\nthe second\n%s", a, b)
	}
	if c.Decision.Chosen != "" {
		t.Errorf("the caller's explanation became %s", dump(c.Decision))
	}
}
