package requests_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bourse-dev/bourse/api"
)

// A bound request warns once before it ends.
func TestARequestThatEndsSoon(t *testing.T) {
	d := newDesk(t)
	made := d.create(nil)
	deal := d.deal() // for an hour
	d.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	d.hears(deal.Reserved(""), "Reserve "+string(made.UID), "Confirm r-1")
	_, again := d.reconcile()
	d.told("Held", "Normal Reserved")
	if again.RequeueAfter < 50*time.Minute || again.RequeueAfter > 54*time.Minute {
		t.Errorf("it is looked at again in %s, want before its last tenth", again.RequeueAfter)
	}
	d.move(again.RequeueAfter)
	o, again := d.reconcile()
	if !strings.HasSuffix(o.Status.Message, "; it ends soon: to ask for more time, bourse extend r-1 --by 1h") ||
		again.RequeueAfter != 0 {
		t.Errorf("%+v, again in %s", o.Status, again.RequeueAfter)
	}
	d.told("Warning Reserved")
	d.move(time.Minute)
	d.reconcile()
	d.told()
}

// A bound request that no pod can use is not Ready, with a Warning, until that is mended.
func TestARequestThatNoPodCanUse(t *testing.T) {
	d := newDesk(t)
	made := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	d.hears(deal.Reserved(""), "Reserve "+string(made.UID), "Confirm r-1")
	d.reconcile()
	d.told("Held", "Normal Reserved")
	for _, step := range []struct {
		kind                 string
		status, ready        metav1.ConditionStatus
		reason, event, state string
	}{
		{api.ConditionOffloaded, metav1.ConditionFalse, metav1.ConditionFalse, "NotOffloaded", "Warning Reserved", "; not offloaded: namespace web is closed"},
		{api.ConditionOffloaded, metav1.ConditionTrue, metav1.ConditionTrue, "Reserved", "Normal Reserved", ""},
		{api.ConditionSuspended, metav1.ConditionTrue, metav1.ConditionFalse, "Liqo", "Warning Reserved",
			"; milan gives nothing more: namespace web is closed"},
		{api.ConditionSuspended, metav1.ConditionFalse, metav1.ConditionTrue, "Reserved", "Normal Reserved", ""},
	} {
		var i api.ReservationInstruction
		if err := d.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "r-1"}, &i); err != nil {
			t.Fatal(err)
		}
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: step.kind,
			Status: step.status, Reason: "Liqo", Message: "namespace web is closed"})
		if err := d.Status().Update(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
		o, _ := d.reconcile()
		ready := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
		if ready.Status != step.ready || ready.Reason != step.reason ||
			!strings.HasSuffix(ready.Message, step.state) || !d.reserved(o) {
			t.Errorf("with %s %s it is %+v", step.kind, step.status, o.Status)
		}
		d.told(step.event)
	}
}

// A request names the labels that its provider sends and that were dropped, with one Warning, until there are none.
func TestARequestNamesDroppedLabels(t *testing.T) {
	d := newDesk(t)
	made := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	d.hears(deal.Reserved(""), "Reserve "+string(made.UID), "Confirm r-1")
	d.reconcile()
	d.told("Held", "Normal Reserved")
	const text = "the virtual node does not get the labels that milan sends: bourse.dev/leaving"
	dropped := []metav1.Condition{{Type: api.ConditionLabelsDropped, Status: metav1.ConditionTrue,
		Reason: "SentByProvider", Message: text, LastTransitionTime: metav1.Now()}}
	for _, shown := range [][]metav1.Condition{dropped, nil, dropped} {
		var i api.ReservationInstruction
		if err := d.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "r-1"}, &i); err != nil {
			t.Fatal(err)
		}
		i.Status.Conditions = shown
		if err := d.Status().Update(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
		o, _ := d.reconcile()
		c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionLabelsDropped)
		if (c != nil) != (shown != nil) || c != nil && c.Message != text ||
			!meta.IsStatusConditionTrue(o.Status.Conditions, api.ConditionReady) {
			t.Errorf("it shows %+v", o.Status.Conditions)
		}
		if d.reconcile(); shown == nil {
			d.told()
			continue
		}
		d.told("Warning LabelsDropped")
	}
}
