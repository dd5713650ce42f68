package grant

import (
	"context"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
)

// While the policies do not hold a plain consumer, it is granted nothing new, and the slice says why. What it
// was granted may shrink.
func TestUnguarded(t *testing.T) {
	scheme := runtime.NewScheme()
	_, _ = corev1.AddToScheme(scheme), authv1beta1.AddToScheme(scheme)
	namespace, slice, tenant := lyonAsks("rented", "9")
	k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace, slice, tenant).WithStatusSubresource(slice).Build()
	owed := Owed{Pool: api.GeneralPool, Reservations: []string{"plain"}}
	g := &Granter{Client: k, Cluster: "milan", Properties: func() api.Properties { return api.Properties{} },
		Pool:      func(string) *api.PoolPolicy { return nil },
		Owed:      func(context.Context, string, string) (Owed, bool, error) { return owed, true, nil },
		Suspended: func(context.Context, string) (string, error) { return "", nil }}
	for _, step := range []struct {
		most      string
		unguarded bool
		status    authv1beta1.ResourceSliceConditionStatus
		reason    string
		cpu       string
	}{
		{"4", true, authv1beta1.ResourceSliceConditionDenied, ReasonUnguarded, "0"},
		{"4", false, authv1beta1.ResourceSliceConditionAccepted, "Reserved", "4"},
		{"6", true, authv1beta1.ResourceSliceConditionAccepted, ReasonUnguarded, "4"},
		{"2", true, authv1beta1.ResourceSliceConditionAccepted, ReasonUnguarded, "2"},
		{"6", false, authv1beta1.ResourceSliceConditionAccepted, "Reserved", "6"},
	} {
		owed.Resources, owed.Unguarded = quantities("cpu", step.most), step.unguarded
		again, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(slice)})
		if err != nil || (again.RequeueAfter > 0) != step.unguarded {
			t.Errorf("%+v: again in %s, %v", step, again.RequeueAfter, err)
		}
		var now authv1beta1.ResourceSlice
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(slice), &now); err != nil {
			t.Fatal(err)
		}
		last := now.Status.Conditions[len(now.Status.Conditions)-1]
		if last.Status != step.status || last.Reason != step.reason || now.Status.Resources.Cpu().String() != step.cpu {
			t.Errorf("%+v: %+v, granted %v", step, last, now.Status.Resources)
		}
	}
}
