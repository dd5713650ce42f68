package requests_test

import (
	"context"
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
	d, _ := reserved(t) // for an hour
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
	d, _ := reserved(t)
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
		d.instruction(func(i *api.ReservationInstruction) {
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: step.kind,
				Status: step.status, Reason: "Liqo", Message: "namespace web is closed"})
		})
		o, _ := d.reconcile()
		ready := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
		if ready.Status != step.ready || ready.Reason != step.reason ||
			!strings.HasSuffix(ready.Message, step.state) || !d.reserved(o) {
			t.Errorf("with %s %s it is %+v", step.kind, step.status, o.Status)
		}
		d.told(step.event)
	}
}

// A cause that is longer than a status shows is told once, and not at each look.
func TestALongCauseIsToldOnce(t *testing.T) {
	d, _ := reserved(t)
	d.reconcile()
	d.told("Held", "Normal Reserved")
	d.instruction(func(i *api.ReservationInstruction) {
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: api.ConditionOffloaded,
			Status: metav1.ConditionFalse, Reason: "Failed", Message: strings.Repeat("the namespace is closed ", 200)})
	})
	d.reconcile()
	d.told("Warning Reserved")
	o, _ := d.reconcile()
	d.told()
	if !strings.HasSuffix(o.Status.Message, "...") {
		t.Errorf("the message has %d bytes", len(o.Status.Message))
	}
}

// instruction changes what the instruction of the request says.
func (d *desk) instruction(change func(*api.ReservationInstruction)) {
	d.t.Helper()
	var i api.ReservationInstruction
	if err := d.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "r-1"}, &i); err != nil {
		d.t.Fatal(err)
	}
	change(&i)
	if err := d.Status().Update(context.Background(), &i); err != nil {
		d.t.Fatal(err)
	}
}

// A request names the labels that its provider sends and that were dropped, with one Warning, until there are none.
func TestARequestNamesDroppedLabels(t *testing.T) {
	d, _ := reserved(t)
	d.reconcile()
	d.told("Held", "Normal Reserved")
	const text = "the virtual node does not get the labels that milan sends: bourse.dev/leaving"
	dropped := []metav1.Condition{{Type: api.ConditionLabelsDropped, Status: metav1.ConditionTrue,
		Reason: "SentByProvider", Message: text, LastTransitionTime: metav1.Now()}}
	for _, shown := range [][]metav1.Condition{dropped, nil, dropped} {
		d.instruction(func(i *api.ReservationInstruction) { i.Status.Conditions = shown })
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
