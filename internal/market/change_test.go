package market_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// becoming is paris's wish that r, bound for an hour, become another size.
func becoming(generation, cores int64) market.Reassign {
	return market.Reassign{ID: "r", Consumer: "paris", Generation: generation,
		Size: cpu(cores), Until: noon + 7_200_000, Document: "assignment " + string(rune('0'+generation))}
}

// The larger of old and new counts, until the provider has answered.
func TestAChangeCountsUntilItIsAnswered(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.must(becoming(2, 7))
	d.want("r", api.Reserved, "", "rome", 1000)
	if r := d.state.Reservation("r"); !r.Size.Equal(cpu(5)) || r.Generation != 1 {
		t.Errorf("changed before it was accepted: %s", dump(r))
	}
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 2, Document: "acceptance 2"})
	d.want("r", api.Reserved, "", "rome", 1000)
	if r := d.state.Reservation("r"); r.Generation != 2 || r.Until != noon+7_200_000 ||
		r.Assignment != "assignment 2" || r.Acceptance != "acceptance 2" || r.Change != nil || r.Shrunk != nil {
		t.Errorf("became %s", dump(r))
	}
	d.must(becoming(3, 2))
	d.want("r", api.Reserved, "", "rome", 1000)
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 3, Document: "acceptance 3"})
	d.want("r", api.Reserved, "", "rome", 6000)
	if r := d.state.Reservation("r"); r.Shrunk == nil || !r.Shrunk.By.Equal(cpu(5)) ||
		!r.Ending().Size.Equal(cpu(5)) || r.Ending().State != api.Releasing {
		t.Errorf("became %s", dump(r))
	}
}

// A change that is refused, or not answered, leaves what is bound; its generation is not used again.
func TestAChangeThatWillNotBe(t *testing.T) {
	for name, no := range map[string]struct {
		do     func(*testBroker)
		reason api.Reason
	}{
		"refused": {func(d *testBroker) {
			d.must(market.Refuse{ID: "r", By: "rome", Generation: 2, Reason: api.ReasonPolicy, Message: "no"})
		}, api.ReasonPolicy},
		"not answered": {func(d *testBroker) { d.pass(market.HoldTime) }, api.ReasonNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.reserved("r", 5)
			d.must(becoming(2, 7))
			no.do(d)
			d.want("r", api.Reserved, "", "rome", 3000)
			if c := d.state.Reservation("r").Change; c == nil || c.Reason != no.reason || c.Assignment != "" {
				t.Errorf("it is %s", dump(c))
			}
			d.fails(api.CodeConflict, market.Accept{ID: "r", Provider: "rome", Generation: 2, Document: "late"})
			d.fails(api.CodeConflict, becoming(2, 6))
			d.must(becoming(3, 6))
		})
	}
}

func TestReassignErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*market.Reassign)
		want   api.Code
	}{
		"nobody's":           {func(c *market.Reassign) { c.ID = "none" }, api.CodeNotFound},
		"a stranger's":       {func(c *market.Reassign) { c.Consumer = "milan" }, api.CodeNotFound},
		"the provider's":     {func(c *market.Reassign) { c.Consumer = "rome" }, api.CodeForbidden},
		"too large":          {func(c *market.Reassign) { c.Size = cpu(9) }, api.CodeInsufficient},
		"not newer":          {func(c *market.Reassign) { c.Generation = 1 }, api.CodeConflict},
		"for a time gone by": {func(c *market.Reassign) { c.Until = noon }, api.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.reserved("r", 5)
			command := becoming(2, 6)
			c.change(&command)
			d.fails(c.want, command)
		})
	}
	d := newTestBroker(t)
	d.signed("r", 5)
	d.fails(api.CodeConflict, becoming(2, 6)) // it is not bound yet
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"})
	d.must(becoming(2, 6))
	d.fails(api.CodeConflict, becoming(3, 7)) // one at a time
}

// A provider that advertises nothing any more cannot be asked for more; less, and longer, it can.
func TestLessIsAlwaysPossible(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.pass(market.Lease)
	d.fails(api.CodeInsufficient, becoming(2, 6))
	d.must(becoming(2, 4))
}

// What ends changes no more.
func TestEndingWhileChanging(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.must(becoming(2, 7))
	d.must(market.Release{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})
	d.want("r", api.Releasing, api.ReasonReleased, "rome", 3000)
	d.fails(api.CodeConflict, market.Accept{ID: "r", Provider: "rome", Generation: 2, Document: "late"})
}

// A gate admits a change beside what binds, commits it, and takes back one that its Ledger lost.
func TestGateAdmitsAChange(t *testing.T) {
	d := newGate(t)
	d.must(assigned("r", 1, 5, "doc"))
	d.fails(api.CodeConflict, assigned("r", 2, 6, "doc 2")) // nothing binds yet
	d.must(market.Commit{ID: "r", Generation: 1})
	d.fails(api.CodeInsufficient, assigned("r", 2, 9, "doc 2"))
	out := d.must(assigned("r", 2, 7, "doc 2"))
	d.want("r", api.Reserved, "", "rome", 1000)
	if out.Reservation.AnswerTo("doc 2") == "" || out.Reservation.AnswerTo("doc") == "" ||
		out.Reservation.AnswerTo("doc 3") != "" {
		t.Errorf("it answers %s", dump(out.Reservation))
	}
	d.must(market.Commit{ID: "r", Generation: 2})
	d.want("r", api.Reserved, "", "rome", 1000)
	d.must(assigned("r", 3, 1, "doc 3"))
	// the broker waits for it no more
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 3, Reason: api.ReasonNotAccepted})
	d.want("r", api.Reserved, "", "rome", 1000)
	adopted := assigned("r", 3, 2, "doc 3")
	adopted.Adopt = true
	d.must(adopted)
	d.want("r", api.Reserved, "", "rome", 6000)
}

// A gate that promised longer does not end at the older time: the broker may have recorded it.
func TestGateWaitsForALongerEnd(t *testing.T) {
	d := newGate(t)
	d.must(assigned("r", 1, 5, "doc"))
	d.must(market.Commit{ID: "r", Generation: 1})
	next := assigned("r", 2, 5, "doc 2")
	next.Assignment.Until = until(noon + 7_200_000)
	d.must(next)
	d.pass(90 * time.Minute)
	d.want("r", api.Reserved, "", "rome", 3000)
	d.pass(31 * time.Minute)
	d.want("r", api.Releasing, api.ReasonEnded, "rome", 3000)
}

// What was lost by becoming smaller is not forgotten by the next change, nor is its time; after a
// while it is.
func TestWhatIsLostStaysLost(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 7)
	change := func(generation, cores int64) *market.Shrunk {
		t.Helper()
		d.must(becoming(generation, cores))
		d.must(market.Accept{ID: "r", Provider: "rome", Generation: generation,
			Document: fmt.Sprint("acceptance ", generation)})
		return d.state.Reservation("r").Shrunk
	}
	if s := change(2, 2); s == nil || !s.By.Equal(cpu(5)) || s.At != noon {
		t.Fatalf("lost %s", dump(s))
	}
	d.pass(time.Minute)
	if s := change(3, 3); s == nil || !s.By.Equal(cpu(4)) || s.At != noon {
		t.Fatalf("lost %s", dump(s))
	}
	d.pass(market.ShrinkTime)
	d.offers("rome", 2, "8")
	if s := change(4, 3); s != nil {
		t.Fatalf("lost %s", dump(s))
	}
	if s := change(5, 1); s == nil || !s.By.Equal(cpu(2)) || s.At != d.now {
		t.Fatalf("lost %s", dump(s))
	}
}
