package requests_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// A change that the broker did not receive is no refusal, however long the broker is away: it is sent again as
// soon as the broker is back, signed again if it has expired.
func TestAnEditWhileTheBrokerIsAway(t *testing.T) {
	d, deal := edited(t, "6")
	takes := d.broker.OnConfirm
	d.broker.OnConfirm = nil
	d.reconcile()
	o, result := d.reconcile()
	if result.RequeueAfter == 0 || d.ours().Changing() == nil || o.Status.State != api.Reserved {
		t.Errorf("it is %+v", o.Status)
	}
	d.move(2 * time.Minute)
	o, result = d.reconcile()
	if c := d.ours().Changing(); c == nil || c.Generation != 2 || asAsked(o) != "Changing" || result.RequeueAfter == 0 {
		t.Errorf("it is %+v, and shows %+v", d.ours().Change, o.Status)
	}
	d.broker.Asked()
	d.broker.OnConfirm = takes
	d.broker.OnReservation = func() (transport.Reservation, error) { return *deal.Shown(), nil }
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	if c := d.ours().Changing(); c == nil || c.Generation != 3 {
		t.Errorf("it is %+v", d.ours().Change)
	}
}

// A broker that received the change, and no answer to it in time: it is asked again after a while.
func TestAnEditThatNobodyAnswers(t *testing.T) {
	d, deal := edited(t, "6")
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	d.broker.OnReservation = func() (transport.Reservation, error) { return *deal.Shown(), nil }
	d.move(2 * time.Minute)
	d.reconcile()
	if c := d.ours().Change; c.Reason != api.ReasonNoAnswer {
		t.Errorf("it is %+v", c)
	}
	d.move(market.RetryTime)
	d.reconcile()
	if c := d.ours().Changing(); c == nil || c.Generation != 3 {
		t.Errorf("it is %+v", d.ours().Change)
	}
}
