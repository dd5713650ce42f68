package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A consumer is suspended and revoked: its provider shows it and tells of it, and what runs goes
// on. Only where the policy says so Liqo drains it, until the policy says otherwise. When it is a
// member again, that is shown, too.
func TestAConsumerIsRevoked(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "revoked", amounts("1", "1Gi"))
	a.becomes(api.Active)
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)
	before := podsIn(t, w.milan, "revoked-rome")
	t.Cleanup(func() { // where a test failed: the next one begins with a member, and with the policy as it was
		w.onRevoke(t, "")
		if members, err := w.Operator.Members(context.Background()); err == nil {
			for _, m := range members {
				switch {
				case m.ID != "rome" || m.Payload.State == api.MemberActive:
				case m.Payload.State == api.MemberSuspended:
					w.operate(t, "resume")
				default:
					w.joinAnew(t)
				}
			}
		}
	})
	goesOn := func() {
		t.Helper()
		w.tenantIs(t, authv1beta1.TenantConditionActive)
		time.Sleep(5 * time.Second)
		if after := podsIn(t, w.milan, "revoked-rome"); !slices.Equal(before, after) {
			t.Errorf("the pods were %v, are %v", before, after)
		}
		eventually(t, "rome is quiet, whom the broker refuses", func(ctx context.Context) error {
			if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), a.request); err != nil {
				return err
			}
			before := a.request.ResourceVersion
			time.Sleep(2 * time.Second)
			if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), a.request); err != nil {
				return err
			}
			if after := a.request.ResourceVersion; after != before {
				return fmt.Errorf("the request was version %s, is %s", before, after)
			}
			return nil
		})
	}

	w.operate(t, "suspend")
	w.shows(t, api.MemberSuspended, "existing reservations stay", corev1.EventTypeWarning)
	goesOn()
	w.operate(t, "resume")
	w.shows(t, api.MemberActive, "", corev1.EventTypeNormal)
	w.operate(t, "revoke")
	w.shows(t, api.MemberRevoked, "existing reservations stay", corev1.EventTypeWarning)
	goesOn()
	a.running(w.milan, 2)

	w.onRevoke(t, api.RevokeDrain)
	w.tenantIs(t, authv1beta1.TenantConditionDrained)
	w.shows(t, api.MemberRevoked, "drained", corev1.EventTypeWarning)
	eventually(t, "rome has no pods at milan", func(ctx context.Context) error {
		var list corev1.PodList
		err := w.milan.Objects.List(ctx, &list, kube.InNamespace("revoked-rome"))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	w.onRevoke(t, "")
	w.tenantIs(t, authv1beta1.TenantConditionActive)

	w.joinAnew(t)
	w.shows(t, api.MemberActive, "", corev1.EventTypeNormal)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// operate is what the broker's operator does about rome.
func (w *world) operate(t *testing.T, step string) {
	t.Helper()
	if _, err := w.Operator.SetMember(context.Background(), "rome", step); err != nil {
		t.Fatal(err)
	}
}

// joinAnew makes rome a member again after it was revoked.
func (w *world) joinAnew(t *testing.T) {
	t.Helper()
	w.operate(t, "remove")
	if err := w.rome.JoinAnew(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// onRevoke changes milan's policy.
func (w *world) onRevoke(t *testing.T, action api.RevokeAction) {
	t.Helper()
	eventually(t, "milan's policy is changed", func(ctx context.Context) error {
		var p api.SharingPolicy
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Name: "default"}, &p); err != nil {
			return err
		}
		p.Spec.OnRevoke = action
		return w.milan.Objects.Update(ctx, &p)
	})
}

// tenantIs waits until Liqo's Tenant of rome at milan is in a condition.
func (w *world) tenantIs(t *testing.T, want authv1beta1.TenantCondition) {
	t.Helper()
	eventually(t, "the Tenant of rome is "+string(want), func(ctx context.Context) error {
		var tenant authv1beta1.Tenant
		err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}, &tenant)
		if err == nil && tenant.Spec.TenantCondition != want {
			err = fmt.Errorf("it is %s, with %v", tenant.Spec.TenantCondition, tenant.Annotations)
		}
		return err
	})
}

// shows waits until milan's Peering with rome says how far rome is a member, and an Event has told it.
func (w *world) shows(t *testing.T, state api.MemberState, says, kind string) {
	t.Helper()
	eventually(t, "milan shows that rome is "+string(state), func(ctx context.Context) error {
		var p api.Peering
		name := api.PeeringName("rome", api.RoleConsumer)
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: name}, &p); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionMember)
		if c == nil || c.Reason != string(state) || (c.Status == "True") != (state == api.MemberActive) ||
			!strings.Contains(c.Message, says) {
			return fmt.Errorf("the condition is %+v", c)
		}
		var list eventsv1.EventList
		if err := w.milan.Objects.List(ctx, &list, kube.InNamespace(api.Namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == "Peering" && e.Regarding.Name == name &&
				e.Reason == "Member"+string(state) && e.Type == kind {
				return nil
			}
		}
		return fmt.Errorf("no Event tells it")
	})
}
