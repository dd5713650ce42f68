package market_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// pending is paris asking for cores that nobody has now, and waiting for an hour.
func pending(id string, cores int64, priority int32) *market.Hold {
	h := request(id, cores)
	h.Candidates = nil
	h.Request.Wait, h.Request.Priority = &metav1.Duration{Duration: time.Hour}, priority
	return h
}

func served(id string, candidates ...string) market.Serve {
	return market.Serve{ID: id, Candidates: candidates,
		Decision: &api.Decision{Considered: 3, Candidates: len(candidates)}}
}

// order is who waits, in order.
func (d *testBroker) order(want ...string) {
	d.t.Helper()
	var got []string
	for _, r := range d.state.Waiting() {
		got = append(got, r.ID)
	}
	if dump(got) != dump(want) {
		d.t.Errorf("%v wait, want %v", got, want)
	}
}

// Requests are served by priority, then age, not by name. They keep their places through a crash.
func TestQueueIsInOrder(t *testing.T) {
	d := newTestBroker(t)
	d.must(pending("z", 90, 0))
	d.must(pending("low", 90, -5))
	d.pass(time.Second)
	d.must(pending("a", 90, 0))
	d.must(pending("high", 90, 5))
	d.order("high", "z", "a", "low")
	d.restart(len(d.journal))
	d.order("high", "z", "a", "low")
	d.must(market.Release{ID: "z", By: "paris", Document: "end"})
	d.want("z", api.Failed, api.ReasonCancelled, "", d.available("rome"))
	d.order("high", "a", "low")
	d.must(market.SetMember{Cluster: "paris", State: api.MemberRemoved})
	d.pass(0)
	d.want("high", api.Failed, api.ReasonMemberRemoved, "", d.available("rome"))
	d.order()
}

// What waited is held for its whole duration, and refused goes back to its place, until it has
// waited for its time.
func TestWaits(t *testing.T) {
	d := newTestBroker(t)
	d.offers("rome", 2, "8")
	all := d.available("rome")
	d.must(pending("r", 4, 0))
	d.want("r", api.Pending, api.ReasonNoCandidate, "", all)
	d.fails(api.CodeInsufficient, served("r", "oslo"))
	d.fails(api.CodeNotFound, served("s", "rome"))
	began := d.now
	d.pass(10 * time.Minute)
	d.offers("rome", 3, "8")
	d.must(served("r", "rome"))
	d.want("r", api.Held, "", "rome", all-4000)
	if r := d.state.Reservation("r"); r.Created != d.now || r.Until != d.now+3_600_000 ||
		r.Since() != began || r.Generation != 1 {
		t.Errorf("%s", dump(r))
	}
	d.fails(api.CodeConflict, served("r", "rome"))
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonInsufficient, Message: "sold"})
	d.want("r", api.Pending, api.ReasonNoCandidate, "", all)
	if r := d.state.Reservation("r"); r.Created != began || r.Until != began+3_600_000 ||
		r.Message != "rome: Insufficient: sold" || len(r.Tried) != 1 || r.Assignment != "" {
		t.Errorf("%s", dump(r))
	}
	d.fails(api.CodeNotFound, market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "too late"})
	d.must(served("r", "rome"))
	if r := d.state.Reservation("r"); r.Generation != 2 {
		t.Errorf("%s", dump(r))
	}
	d.must(market.Refuse{ID: "r", By: "paris", Generation: 2, Reason: api.ReasonUnreachable})
	d.state.RecordTry("r", market.Explain(&api.Decision{Considered: 7}))
	if got := d.state.Why("r").Decision(); got.Considered != 7 {
		t.Errorf("explained by %+v", got)
	}
	d.pass(50*time.Minute - time.Millisecond)
	d.want("r", api.Pending, api.ReasonNoCandidate, "", all)
	d.now++
	d.fails(api.CodeConflict, served("r", "rome"))
	if out, err := market.Decide(d.state, market.Tick{}, d.now); err != nil ||
		out.Events[0].Reservation.Why.Decision().Considered != 7 {
		t.Errorf("rejected with %s, %v", dump(out.Events), err)
	}
}

// A provider that takes back what it advertises does not play with a request for ever.
func TestRefusalsEnd(t *testing.T) {
	d := newTestBroker(t)
	d.offers("rome", 2, "8")
	d.must(pending("r", 4, 0))
	for n := int64(1); d.state.Reservation("r").State == api.Pending; n++ {
		d.must(served("r", "rome"))
		d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: n, Document: "assignment"})
		d.must(market.Refuse{ID: "r", By: "rome", Generation: n, Reason: api.ReasonInsufficient})
	}
	if r := d.state.Reservation("r"); r.State != api.Failed || len(r.Tried) != 16 {
		t.Errorf("%s", dump(r))
	}
}

// Who waits is held at once where there is room, and goes to the queue, not away, where everybody refused.
func TestWaitsOnlyIfItMust(t *testing.T) {
	d := newTestBroker(t)
	d.offers("rome", 2, "8")
	h := pending("r", 4, 0)
	h.Candidates = []string{"rome"}
	d.must(h)
	d.want("r", api.Held, "", "rome", d.available("rome"))
	d.order()
	d.must(market.Refuse{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonUnreachable})
	d.order("r")
	d.pass(time.Hour)
	d.want("r", api.Rejected, api.ReasonNoCandidate, "", d.available("rome"))
	premature := pending("early", 90, 0)
	premature.Premature = true
	d.must(premature)
	d.order("early")
}

// A plan that is sold out is waited for, too; one that is not what was seen is refused at once.
func TestWaitsForAPlan(t *testing.T) {
	d := newTestBroker(t)
	d.offers("rome", 2, "64")
	offer := version(t, 1)
	d.must(offer)
	buy := func(id string, wait bool) *market.Hold {
		h := request(id, 1)
		h.Sale, h.Candidates = &api.Sale{Offer: offer.Offer.Digest, Plan: "small", Units: 1}, []string{"rome"}
		if wait {
			h.Request.Wait = &metav1.Duration{Duration: time.Hour}
		}
		return h
	}
	sold := 0
	for ; ; sold++ {
		if _, err := d.do(buy("r"+string(rune('a'+sold)), false), d.now); err != nil {
			if api.CodeOf(err) != api.CodeInsufficient {
				t.Fatal(err)
			}
			break
		}
	}
	d.must(buy("waits", true))
	d.order("waits")
	d.fails(api.CodeInsufficient, served("waits", "rome"))
	d.must(market.Release{ID: "ra", By: "paris", Generation: 1, Document: "end"})
	d.must(served("waits", "rome"))
	if r := d.state.Reservation("waits"); r.State != api.Held || r.From != d.now/1000*1000 {
		t.Errorf("%s", dump(r))
	}
}

// A hold that nobody signs goes back to its place in the queue, 16 times at most. One that a person confirms, or
// that does not wait, is over.
func TestWaitsUnsigned(t *testing.T) {
	d := newTestBroker(t)
	d.offers("rome", 2, "8")
	all := d.available("rome")
	began := d.now
	d.must(pending("r", 4, 0))
	for n := 1; n < 16; n++ {
		d.must(served("r", "rome", "milan"))
		d.want("r", api.Held, "", "rome", all-4000)
		d.pass(market.HoldTime)
		d.want("r", api.Pending, api.ReasonNoCandidate, "", all)
		r := d.state.Reservation("r")
		if len(r.Tried) != n || r.Tried[n-1] != (api.Tried{Provider: "rome", Reason: api.ReasonNotConfirmed}) ||
			r.Created != began || r.Generation != int64(n) || r.Message == "" {
			t.Fatalf("%s", dump(r))
		}
		d.restart(len(d.journal))
		d.offers("rome", int64(2+n), "8")
		d.order("r")
	}
	d.must(served("r", "rome"))
	d.pass(market.HoldTime)
	d.want("r", api.Expired, api.ReasonNotConfirmed, "rome", all)

	byHand := pending("by-hand", 4, 0)
	byHand.Request.Confirm = true
	d.must(byHand)
	d.must(served("by-hand", "rome"))
	late := pending("late", 4, 0)
	late.Request.Wait.Duration = market.MinWait
	late.Candidates = []string{"rome"}
	d.must(late)
	d.pass(market.HoldTime)
	d.want("by-hand", api.Expired, api.ReasonNotConfirmed, "rome", all)
	d.want("late", api.Expired, api.ReasonNotConfirmed, "rome", all)
}
