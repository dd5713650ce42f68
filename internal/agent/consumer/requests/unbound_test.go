package requests_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// unbound checks that a request shows no final state, and asks the broker nothing yet.
func (d *desk) unbound(reason api.Reason) {
	d.t.Helper()
	o, again := d.reconcile()
	c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
	if o.Status.State != "" || len(o.Status.Parts) > 0 || c == nil || c.Reason != string(reason) || again.RequeueAfter <= 0 ||
		again.RequeueAfter > market.RetryTime {
		d.t.Errorf("it shows %+v, and is looked at again in %s", o.Status, again.RequeueAfter)
	}
	d.wasAsked()
}

// asksAgain lets a while pass, and checks that the request then gets another reservation, whose assignment is sent
// until the broker takes it. The first answer of the broker is lost.
func (d *desk) asksAgain(o *api.ResourceRequest) {
	d.t.Helper()
	d.move(market.RetryTime)
	second := transporttest.NewDeal(d.rome, d.milan, "r-2", "2", d.now())
	var keys []string
	d.broker.OnReserve = func(key string, _ api.Request) (transport.Reservation, error) {
		if keys = append(keys, key); len(keys) == 1 {
			return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "the answer is lost")
		}
		return *second.Shown(), nil
	}
	d.broker.OnConfirm = nil
	d.reconcile()
	d.reconcile() // it signs, and the broker does not take it
	d.takes(second)
	now, _ := d.reconcile()
	if now.Status.Reservation != "r-2" || now.Status.State != api.Held {
		d.t.Errorf("it is %+v", now.Status)
	}
	want := string(o.UID) + ".r-1"
	d.wasAsked("Reserve "+want, "Reserve "+want, "Confirm r-2", "Reserve "+want, "Confirm r-2")
	d.reconcile()
	d.wasAsked()
}

// The agent was away for so long that its hold ended: the request asks again, and never shows that as its end.
func TestAHoldWhoseAgentWasAway(t *testing.T) {
	d := newDesk(t)
	o := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.reconcile() // the broker does not take the assignment
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1")
	d.hears(deal.Over(api.Expired, api.ReasonNotConfirmed))
	d.unbound(api.ReasonNotConfirmed)
	d.asksAgain(o)
}

// The same if the agent ended before it recorded the hold.
func TestAHoldThatTheAgentNeverSaw(t *testing.T) {
	d := newDesk(t)
	o := d.create(nil)
	deal := d.deal()
	deal.Over(api.Expired, api.ReasonNotConfirmed)
	d.offers(deal.Shown)
	d.reconcile()
	d.wasAsked("Reserve " + string(o.UID))
	d.unbound(api.ReasonNotConfirmed)
	d.asksAgain(o)
}

// No provider answered: that passes, too. A refusal does not.
func TestAProviderThatWasAway(t *testing.T) {
	for _, c := range []struct {
		last  api.Reason
		again bool
	}{{api.ReasonNoAnswer, true}, {api.ReasonPolicy, false}} {
		d := newDesk(t)
		o := d.create(nil)
		deal := d.deal()
		d.offers(deal.Shown)
		d.takes(deal)
		d.reconcile()
		d.broker.Asked()
		shown := deal.Over(api.Failed, api.ReasonNotAccepted)
		shown.Payload.Tried = []api.Tried{{Provider: "milan", Reason: c.last}}
		d.hears(shown)
		if c.again {
			d.unbound(api.ReasonNoAnswer)
			d.asksAgain(o)
		} else if o, again := d.reconcile(); o.Status.State != api.Failed || again.RequeueAfter != 0 {
			t.Errorf("%s: it shows %+v", c.last, o.Status)
		}
	}
}

// What was shown as final stays so, and so does the end of a hold that a person did not confirm.
func TestWhatDoesNotAskAgain(t *testing.T) {
	d := newDesk(t)
	d.create(func(o *api.ResourceRequest) { o.Spec.Confirm = true })
	deal := d.deal()
	d.offers(deal.Shown)
	d.reconcile()
	d.broker.Asked()
	d.hears(deal.Over(api.Expired, api.ReasonNotConfirmed))
	o, again := d.reconcile()
	if o.Status.State != api.Expired || again.RequeueAfter != 0 {
		t.Errorf("it shows %+v", o.Status)
	}
	o.Spec.Confirm = false
	if err := d.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.move(market.RetryTime)
	if o, _ = d.reconcile(); o.Status.State != api.Expired {
		t.Errorf("it shows %+v", o.Status)
	}
	d.wasAsked()
}

// The answer to a request was lost, and the request was edited since: it is asked for as it is now, and a repeat
// of that gets its first answer.
func TestAnEditAfterALostAnswer(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.takes(d)
	first, answers := map[string]api.Request{"uid-1": transporttest.Request("1")}, 0
	b.broker.OnReserve = func(key string, r api.Request) (transport.Reservation, error) {
		if was, known := first[key]; known && was.Resources.Cpu().Cmp(*r.Resources.Cpu()) != 0 {
			return transport.Reservation{}, api.Errorf(api.CodeKeyReused, "key %q made another reservation", key)
		}
		first[key] = r
		if answers++; answers == 1 {
			return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "the answer is lost")
		}
		return *d.Shown(), nil
	}
	if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatal(err)
	}
	if err := b.Ask(t.Context(), *b.wish); err != nil {
		t.Fatal(err)
	}
	b.holds(api.Held, "")
	if len(first) != 2 {
		t.Errorf("it asked by %d keys", len(first))
	}
}

// A split request asks again for all parts, if one ended since nobody answered.
func TestPartsThatWereNeverBound(t *testing.T) {
	d := newDesk(t)
	o := d.create(func(o *api.ResourceRequest) { o.Spec.Resources, o.Spec.Split = transporttest.CPU("4"), 2 })
	shown := d.splits()
	if held, _ := d.reconcile(); len(held.Status.Parts) != 2 {
		t.Errorf("it shows the parts %+v", held.Status.Parts)
	}
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1", "Confirm r-2")
	for id, reason := range map[string]api.Reason{"r-1": api.ReasonPartFailed, "r-2": api.ReasonNotAccepted} {
		theirs := *shown[id]
		theirs.Payload.State, theirs.Payload.Reason, theirs.Payload.Fence.Revision = api.Failed, reason, 99
		if id == "r-2" {
			theirs.Payload.Tried = []api.Tried{{Provider: "paris", Reason: api.ReasonNoAnswer}}
		}
		var record *market.Reservation
		if err := d.borrower.Market.Read(t.Context(), func(s *market.State) { record = s.Reservation(id) }); err != nil {
			t.Fatal(err)
		}
		if err := d.Sync(t.Context(), &theirs, record, d.wish); err != nil {
			t.Fatal(err)
		}
	}
	d.unbound(api.ReasonNoAnswer)
	d.move(market.RetryTime)
	d.broker.OnReserve = func(key string, _ api.Request) (transport.Reservation, error) {
		if key == string(o.UID) {
			t.Error("it asks by the first key")
		}
		return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "away")
	}
	d.reconcile()
	if asked := d.broker.Asked(); len(asked) != 1 {
		t.Errorf("the broker is asked %q", asked)
	}
}

// A request whose reservation was over for so long that the Ledger forgot it is not asked for again.
func TestWhatIsOverStaysOver(t *testing.T) {
	d := newDesk(t)
	o := d.create(nil)
	o.Status = api.ResourceRequestStatus{Reservation: "r-1", State: api.Released}
	if err := d.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.reconcile()
	d.wasAsked()
}
