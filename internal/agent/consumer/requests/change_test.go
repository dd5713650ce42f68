package requests_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// reserved returns a desk whose broker says that its request is bound.
func reserved(t *testing.T) (*desk, *transporttest.Deal) {
	d := newDesk(t)
	made := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	d.hears(deal.Reserved(""), "Reserve "+string(made.UID), "Confirm r-1")
	return d, deal
}

// edited returns a desk whose request is bound, and then asks for so many CPUs for a day.
func edited(t *testing.T, cpu string) (*desk, *transporttest.Deal) {
	d, deal := reserved(t)
	if o, _ := d.reconcile(); !meta.IsStatusConditionTrue(o.Status.Conditions, api.ConditionUpToDate) {
		t.Fatalf("it is %+v", o.Status)
	}
	d.told("Held", "Reserved")
	d.edit(cpu)
	d.broker.OnConfirm = func(_, assignment string) (transport.Reservation,
		error) {
		return *deal.Changing(cpu, assignment), nil
	}
	return d, deal
}

// No condition of a request that is over is True.
func TestWhatIsOverIsNotUpToDate(t *testing.T) {
	d, deal := reserved(t)
	d.reconcile()
	d.hears(deal.Ending(d.milan, api.ReasonRevokedByProvider))
	d.hears(deal.Over(api.Released, api.ReasonRevokedByProvider))
	o, _ := d.reconcile()
	if o.Status.State != api.Released {
		t.Fatalf("it is %+v", o.Status)
	}
	for _, c := range o.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			t.Errorf("%s is still True: %s", c.Type, c.Message)
		}
	}
}

func (d *desk) edit(cpu string) {
	d.t.Helper()
	o, _ := d.reconcile()
	o.Spec.Resources, o.Spec.Duration = transporttest.CPU(cpu), &metav1.Duration{Duration: 24 * time.Hour}
	if err := d.Update(d.t.(*testing.T).Context(), o); err != nil {
		d.t.Fatal(err)
	}
	wish := requests.WishOf(o)
	d.wish = &wish
	d.broker.Asked()
}

// asAsked returns why a reservation is not what its request asks for; empty if it is.
func asAsked(o *api.ResourceRequest) string {
	c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionUpToDate)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// An edited request is signed again, and counts once the provider has accepted.
func TestAnEditedRequest(t *testing.T) {
	d, deal := edited(t, "6")
	d.reconcile() // what is signed is remembered first
	o, result := d.reconcile()
	d.wasAsked("Confirm r-1")
	if asAsked(o) != "Changing" || result.RequeueAfter == 0 || o.Status.State != api.Reserved {
		t.Errorf("it is %+v", o.Status)
	}
	d.hears(deal.Shown())
	if r := d.ours(); r.Size.Of("cpu") != 2000 || r.Changing() == nil {
		t.Errorf("nobody accepted it yet: %+v", r)
	}
	if o.Status.Resources.Cpu().String() != "2" || strings.Contains(o.Status.Message, "asked to accept") {
		t.Errorf("it shows a change that is not in force: %+v", o.Status)
	}
	d.hears(deal.Changed(""))
	o, result = d.reconcile()
	d.told("Normal Changed it is cpu=6 ")
	if o.Status.Resources.Cpu().String() != "6" {
		t.Errorf("in force is %v", o.Status.Resources)
	}
	if r := d.ours(); r.Size.Of("cpu") != 6000 || r.Generation != 2 ||
		r.Change != nil || asAsked(o) != "" || result.RequeueAfter < 20*time.Hour { // only to warn of the end
		t.Errorf("it is %+v, and shows %+v", r, o.Status)
	}
	if left := o.Status.Until.Sub(d.now()); left < 23*time.Hour {
		t.Errorf("it ends in %s", left)
	}
	d.wasAsked()
}

// A refusal is shown, and what is bound stays. The change is asked for again later, as a newer
// generation, unless the user withdrew it.
func TestAnEditThatIsRefused(t *testing.T) {
	d, deal := edited(t, "6")
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	d.hears(deal.Unchanged(api.ReasonPolicy))
	o, result := d.reconcile()
	d.told("Warning Reserved")
	if o.Status.Resources.Cpu().String() != "2" {
		t.Errorf("in force is %v", o.Status.Resources)
	}
	if asAsked(o) != string(api.ReasonPolicy) || result.RequeueAfter <= 0 || result.RequeueAfter > market.RetryTime {
		t.Errorf("it is %+v, again in %s", o.Status, result.RequeueAfter)
	}
	d.wasAsked()
	d.move(market.RetryTime)
	d.broker.OnConfirm = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeInsufficient, "milan is short")
	}
	d.reconcile()
	if o, _ = d.reconcile(); d.ours().Change.Generation != 3 || asAsked(o) != string(api.ReasonInsufficient) {
		t.Errorf("it is %+v, and shows %+v", d.ours().Change, o.Status)
	}
	d.wasAsked("Confirm r-1")
	o.Spec.Resources, o.Spec.Duration = transporttest.CPU("2"), &metav1.Duration{Duration: time.Hour} // as it was
	if err := d.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if o, _ = d.reconcile(); asAsked(o) != "" {
		t.Errorf("it is %+v", o.Status)
	}
	d.wasAsked()
}

// A change that exceeds the cap of this cluster ends at once, and the request says why. It is asked for again
// later: the cap may have been raised.
func TestAnEditBeyondTheCap(t *testing.T) {
	d, _ := edited(t, "6")
	takes := d.broker.OnConfirm
	d.broker.OnConfirm = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeCapReached, "rome may have 4 cpu").Fix("release something")
	}
	d.reconcile()
	o, result := d.reconcile()
	d.wasAsked("Confirm r-1")
	says := meta.FindStatusCondition(o.Status.Conditions, api.ConditionUpToDate).Message
	if c := d.ours().Change; c.Reason != api.ReasonCapReached || asAsked(o) != string(api.ReasonCapReached) ||
		!strings.Contains(says, "rome may have 4 cpu") {
		t.Errorf("it is %+v, and shows %+v", c, o.Status)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > market.RetryTime {
		t.Errorf("it asks again in %s", result.RequeueAfter)
	}
	d.reconcile()
	d.wasAsked()
	d.move(market.RetryTime)
	d.broker.OnConfirm = takes
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	if c := d.ours().Changing(); c == nil || c.Generation != 3 || c.Size.Of("cpu") != 6000 {
		t.Errorf("then it is %+v", d.ours().Change)
	}
}

// A broker that was away does not know yet how the provider answered an earlier change: the newer one is no
// refusal, and is sent again until the broker takes it.
func TestAnEditBehindAnEarlierChange(t *testing.T) {
	d, deal := edited(t, "6")
	takes := d.broker.OnConfirm
	d.broker.OnConfirm = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeConflict, "it is changing").Fix("wait for its answer")
	}
	d.broker.OnReservation = func() (transport.Reservation, error) {
		shown := *deal.Shown()
		shown.Payload.Change = &api.Change{Generation: d.ours().Change.Generation - 1}
		return shown, nil
	}
	d.reconcile()
	o, result := d.reconcile()
	d.wasAsked("Confirm r-1")
	if asAsked(o) != "Changing" || result.RequeueAfter == 0 || d.ours().Changing() == nil {
		t.Errorf("it is %+v, and shows %+v", d.ours().Change, o.Status)
	}
	d.broker.OnConfirm = takes
	d.reconcile()
	d.wasAsked("Confirm r-1")
	d.hears(deal.Changed(""))
	if o, _ = d.reconcile(); d.ours().Size.Of("cpu") != 6000 || asAsked(o) != "" {
		t.Errorf("it is %+v, and shows %+v", d.ours(), o.Status)
	}
}

// A broker lies about a change: nothing changes without the provider's signature on what was signed here.
func TestALyingBrokerAcceptsAChange(t *testing.T) {
	d, deal := edited(t, "6")
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	shown := deal.Changed("x")
	d.hears(shown)
	if r := d.ours(); r.Generation != 1 {
		t.Errorf("it believes %+v", r)
	}
	shown.Payload.Assignment = d.milan.Assign(*shown)
	shown.Payload.Acceptance = d.milan.Agree(*shown)
	d.hears(shown)
	if r := d.ours(); r.Generation != 1 {
		t.Errorf("it believes %+v", r)
	}
}

// A broker restored to before a change receives the assignment that binds both sides.
func TestABrokerRestoredFromBeforeAChange(t *testing.T) {
	d, deal := edited(t, "6")
	before := deal.Shown()
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	d.hears(deal.Shown())
	d.hears(deal.Changed(""))
	bound := d.ours().Assignment
	d.broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) {
		if assignment != bound {
			t.Error("it signed another assignment")
		}
		return *deal.Shown(), nil
	}
	before.Payload.Fence = api.Fence{Lineage: "second", Revision: 1}
	d.hears(before, "Confirm r-1")
	if r := d.ours(); r.Generation != 2 {
		t.Errorf("it is %+v", r)
	}
}

// A request that was edited before its Ledger was lost is found through its status.
func TestAnEditedRequestOfALedgerThatLostEverything(t *testing.T) {
	d, deal := edited(t, "6")
	wish := *d.wish
	wish.Reservation = "r-1"
	b := again(t, d.rome, d.milan, d.clock)
	b.wish = &wish
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeKeyReused, "another request")
	}
	b.broker.OnReservation = func() (transport.Reservation, error) { return *deal.Shown(), nil }
	if err := b.Ask(t.Context(), wish); err != nil {
		t.Fatal(err)
	}
	b.holds(api.Reserved, "")
	if r := b.ours(); r.Size.Of("cpu") != 2000 || r.Object == nil {
		t.Errorf("it remembers %+v", r)
	}
}

// If that broker no longer waits for the answer, the same change is signed again, as a newer generation.
func TestABrokerRestoredThatGaveUpWaiting(t *testing.T) {
	d, deal := edited(t, "6")
	before := *deal.Shown()
	d.reconcile()
	d.reconcile()
	d.wasAsked("Confirm r-1")
	d.hears(deal.Shown())
	d.hears(deal.Changed(""))
	before.Payload.Fence = api.Fence{Lineage: "second", Revision: 1}
	before.Payload.Change = &api.Change{Generation: 2, Resources: transporttest.CPU("6"), Reason: api.ReasonNoAnswer}
	d.hears(&before)
	if c := d.ours().Changing(); c == nil || c.Generation != 3 || c.Size.Of("cpu") != 6000 || d.ours().Generation != 2 {
		t.Fatalf("it is %+v", d.ours())
	}
	d.broker.OnConfirm = func(string, string) (transport.Reservation, error) { return before, nil }
	d.reconcile()
	d.wasAsked("Confirm r-1")
}
