package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A provider's admin suspends a consumer: it gets nothing more, both sides show why, what runs goes
// on and what ends, ends, through a restart of either agent. Resumed, it grows again.
func TestAProviderSuspendsAConsumer(t *testing.T) {
	w := start(t)
	t.Cleanup(func() { _, _ = w.milan.People(0).Resume(context.Background(), "rome") })
	a := w.ask(t, w.rome, w.milan, "suspended", amounts("2", "2Gi"))
	a.becomes(api.Active)
	b := w.ask(t, w.rome, w.milan, "ends", amounts("1", "1Gi"))
	b.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "3")
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	before := podsIn(t, w.milan, "suspended-rome")

	for range 2 { // the second time changes nothing
		p, err := w.milan.People(0).Suspend(t.Context(), "rome", "the bill of May is open")
		if err != nil || !p.Payload.Spec.Suspend {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	w.tenantIs(t, authv1beta1.TenantConditionCordoned)
	w.showsSuspended(t, a, "Suspended", "the bill of May is open")
	w.restart(t, w.milan)
	w.restart(t, w.rome)
	refused := w.ask(t, w.rome, w.milan, "refused", amounts("1", "1Gi"))
	refused.becomes(api.Failed)
	if m := refused.request.Status.Message; !strings.Contains(m, "the bill of May is open") {
		t.Errorf("who asks for more is told %q", m)
	}
	if err := a.edit(func(s *api.ResourceRequestSpec) { s.Resources = amounts("4", "4Gi") }); err != nil {
		t.Fatal(err)
	}
	a.answered(string(api.ReasonSuspended))
	b.release()
	w.granted(t, w.rome, w.milan, "2")
	w.tenantIs(t, authv1beta1.TenantConditionCordoned)
	w.showsSuspended(t, a, "Suspended", "the bill of May is open")
	a.running(w.milan, 2)
	if after := podsIn(t, w.milan, "suspended-rome"); !slices.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}

	if _, err := w.milan.People(0).Resume(t.Context(), "rome"); err != nil {
		t.Fatal(err)
	}
	w.tenantIs(t, authv1beta1.TenantConditionActive)
	w.showsSuspended(t, a, "", "")
	if err := a.edit(func(s *api.ResourceRequestSpec) { s.Resources = amounts("3", "3Gi") }); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	w.granted(t, w.rome, w.milan, "3")
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// A reservation ends completely also while the Tenant is cordoned, here by an admin.
func TestAReservationEndsWhileItsTenantIsCordoned(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "cordoned", amounts("2", "2Gi"))
	a.becomes(api.Active)
	b := w.ask(t, w.rome, w.milan, "cordoned-too", amounts("1", "1Gi"))
	b.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "3")
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	eventually(t, "milan's admin cordons rome's Tenant", func(ctx context.Context) error {
		var tenant authv1beta1.Tenant
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}, &tenant); err != nil {
			return err
		}
		tenant.Spec.TenantCondition = authv1beta1.TenantConditionCordoned
		return w.milan.Objects.Update(ctx, &tenant)
	})
	w.showsCordoned(t, a)
	b.release()
	w.granted(t, w.rome, w.milan, "2")
	a.running(w.milan, 2)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// showsCordoned waits until rome's user sees that there is nothing more.
func (w *world) showsCordoned(t *testing.T, a *asked) {
	t.Helper()
	eventually(t, "rome shows that it is cordoned", func(ctx context.Context) error {
		var i api.ReservationInstruction
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: a.request.Namespace, Name: a.request.Status.Reservation}, &i)
		return suspendedBy(i.Status.Conditions, "Cordoned", "is cordoned", err)
	})
}

// showsSuspended waits until both sides show a suspension, and an Event has told it; by no reason:
// that there is none.
func (w *world) showsSuspended(t *testing.T, a *asked, reason, says string) {
	t.Helper()
	told := reason
	if reason == "" {
		told = "Resumed"
	}
	for _, side := range []struct {
		at   *federation.Member
		name string
	}{{w.milan, api.PeeringName("rome", api.RoleConsumer)}, {w.rome, api.PeeringName("milan", api.RoleProvider)}} {
		eventually(t, fmt.Sprintf("%s shows in %s that it is %q", side.at.Name, side.name, told),
			func(ctx context.Context) error {
				var p api.Peering
				err := side.at.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: side.name}, &p)
				if err := suspendedBy(p.Status.Conditions, reason, says, err); err != nil {
					return err
				}
				var list eventsv1.EventList
				if err := side.at.Objects.List(ctx, &list, kube.InNamespace(api.Namespace)); err != nil {
					return err
				}
				if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
					return e.Regarding.Kind == "Peering" && e.Regarding.Name == side.name &&
						e.Reason == told && (e.Type == corev1.EventTypeWarning) == (reason != "")
				}) {
					return fmt.Errorf("no Event tells it")
				}
				return nil
			})
	}
	eventually(t, "milan's Peer and rome's instruction show it", func(ctx context.Context) error {
		var p api.Peer
		err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "rome"}, &p)
		if err := suspendedBy(p.Status.Conditions, reason, says, err); err != nil {
			return err
		}
		var i api.ReservationInstruction
		err = w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: a.request.Namespace, Name: a.request.Status.Reservation}, &i)
		return suspendedBy(i.Status.Conditions, reason, says, err)
	})
}

func suspendedBy(conditions []metav1.Condition, reason, says string, err error) error {
	c := meta.FindStatusCondition(conditions, api.ConditionSuspended)
	switch {
	case err != nil:
		return err
	case reason == "" && c != nil, reason != "" && (c == nil ||
		c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, says)):
		return fmt.Errorf("the condition is %+v", c)
	}
	return nil
}
