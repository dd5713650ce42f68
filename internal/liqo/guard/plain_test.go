package guard

import (
	"context"
	"testing"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Of the consumers of peerings made by hand, those are guarded that the policies know as plain consumers.
func TestGuardsPlainConsumers(t *testing.T) {
	known := runtime.NewScheme()
	if err := liqo.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	if err := clientgoscheme.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-lyon", Labels: liqo.Of("lyon"),
		Annotations: map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "a/b"}}}
	c := fake.NewClientBuilder().WithScheme(known).WithObjects(ns).Build()
	guarded, waits := false, false
	g := &Guard{Client: c, Reader: c, Sharing: func() *api.Sharing { return nil },
		Plain:   func(string) (bool, bool) { return guarded, waits },
		Storage: func(context.Context, string) (int64, error) { return 0, nil },
		Granted: func(context.Context, string) (api.Resources, error) { return api.Resources{}, nil }}
	for _, step := range []struct{ guarded, waits bool }{{false, false}, {false, true}, {true, false}} {
		guarded, waits = step.guarded, step.waits
		again, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ns)})
		if err != nil || (again.RequeueAfter > 0) != step.waits {
			t.Errorf("%+v: again in %s, %v", step, again.RequeueAfter, err)
		}
		var quotas corev1.ResourceQuotaList
		if err := c.List(t.Context(), &quotas); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			t.Fatal(err)
		}
		if is := len(quotas.Items) == 1 && ns.Labels[Label] == "true"; is != step.guarded {
			t.Errorf("%+v: labels %v, %d quotas", step, ns.Labels, len(quotas.Items))
		}
	}
}
