package kubeobject_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// A change is written once, and an object that is gone is no error.
func TestChange(t *testing.T) {
	writes := 0
	ns := &corev1.Namespace{}
	ns.Name, ns.Labels = "apps", map[string]string{"kept": "yes"}
	stores := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(ns).Build()
	c := interceptor.NewClient(stores, interceptor.Funcs{Patch: func(ctx context.Context,
		c client.WithWatch, o client.Object, p client.Patch, all ...client.PatchOption) error {
		writes++
		return c.Patch(ctx, o, p, all...)
	}})
	for call := range 2 {
		var stored corev1.Namespace
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(ns), &stored); err != nil {
			t.Fatal(err)
		}
		err := kubeobject.Change(t.Context(), c, &stored, func() { stored.Labels["new"] = "yes" })
		if err != nil {
			t.Fatal(err)
		}
		if writes != 1 || stored.Labels["new"] != "yes" || stored.Labels["kept"] != "yes" {
			t.Errorf("call %d: %d writes, labels %v", call, writes, stored.Labels)
		}
	}
	if err := c.Delete(t.Context(), ns.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	err := kubeobject.Change(t.Context(), c, ns, func() { ns.Labels["new"] = "no" })
	if err != nil || writes != 2 {
		t.Errorf("of one that is gone: %v, %d writes", err, writes)
	}
}
