package grant

import (
	"context"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// Liqo is made to look at a slice that it has not answered in time, by a change of the Tenant, if
// that is ours.
func TestRemind(t *testing.T) {
	scheme := runtime.NewScheme()
	_, _ = corev1.AddToScheme(scheme), authv1beta1.AddToScheme(scheme)
	for name, c := range map[string]struct {
		change  func(*authv1beta1.ResourceSlice, *authv1beta1.Tenant)
		touched bool
	}{
		"it is late": {func(*authv1beta1.ResourceSlice, *authv1beta1.Tenant) {}, true},
		"it is new": {func(s *authv1beta1.ResourceSlice, _ *authv1beta1.Tenant) {
			s.CreationTimestamp = metav1.Now()
		}, false},
		"it asks for no certificate yet": {func(s *authv1beta1.ResourceSlice,
			_ *authv1beta1.Tenant) {
			s.Spec.CSR = nil
		}, false},
		"Liqo has refused it": {func(s *authv1beta1.ResourceSlice, _ *authv1beta1.Tenant) {
			s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionDenied}}
		}, false},
		"the peering was made by hand": {func(_ *authv1beta1.ResourceSlice, t *authv1beta1.Tenant) { t.Labels = nil }, false},
	} {
		namespace := liqo.NewTenantNamespace("rome")
		slice := &authv1beta1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "s",
				Labels: map[string]string{"liqo.io/replicated": "true"}, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute))},
			Spec: authv1beta1.ResourceSliceSpec{Class: liqo.Class, CSR: []byte("x")},
		}
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name,
			Name: "rome", Labels: liqo.Managed()}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
		c.change(slice, tenant)
		k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace, slice, tenant).Build()
		g := &Granter{Client: k, Suspended: func(context.Context, string) (string, error) { return "", nil }}
		if _, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(slice)}); err != nil {
			t.Fatal(err)
		}
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); err != nil ||
			(len(tenant.Annotations) > 0) != c.touched {
			t.Errorf("%s: %v, %v", name, tenant.Annotations, err)
		}
	}
}
