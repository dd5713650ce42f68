package policies

import (
	"context"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// Once the agent lists a plain consumer, the policies hold what its Liqo creates and what it updates. Before
// and after that, the peering is one made by hand.
func TestAPlainConsumer(t *testing.T) {
	w := start(t)
	ctx, namespace := t.Context(), "liqo-tenant-lyon"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(kube.IgnoreAlreadyExists(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"liqo.io/remote-cluster-id": "lyon", "liqo.io/tenant-namespace": "true"}}})))
	must(kube.IgnoreAlreadyExists(w.bind(ctx, namespace, "liqo-remote-controlplane", rbacv1.UserKind, "lyon")))
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	lyon := w.mustAs(t, controlPlaneOf("lyon"))
	object := func(resource, name string) kube.Object {
		o := honest(resource, name)
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetLabels(map[string]string{"liqo.io/originID": "lyon", "liqo.io/replicated": "true"})
		return o
	}
	slice := func(name string, class authv1beta1.ResourceSliceClass) *authv1beta1.ResourceSlice {
		s := object("resourceslices", name).(*authv1beta1.ResourceSlice)
		s.Spec.Class = class
		return s
	}
	mapping := func(to string) *offv1beta1.NamespaceMap {
		m := object("namespacemaps", "oslo").(*offv1beta1.NamespaceMap)
		m.Spec.DesiredMapping = map[string]string{"shop": to}
		return m
	}
	creates := func(o kube.Object) error { return lyon.Create(ctx, o, kube.DryRunAll) }

	// It has its slice and a namespace from before.
	w.eventually(t, "it makes any slice", func() error { return creates(slice("other", "default")) })
	stored, names := slice("rented", "bourse"), mapping("shop-lyon")
	must(lyon.Create(ctx, stored))
	must(lyon.Create(ctx, names))
	t.Cleanup(func() {
		for _, o := range []kube.Object{stored, names} {
			if err := w.admin.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		}
	})
	policies := &posture.Policies{Known: w.admin, Reader: w.admin, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo"}
	must(policies.List(ctx, "lyon", &posture.Demands{Plain: true},
		[]posture.Slice{{Name: "rented", CSR: 500, User: "rented-1a2b3c", Placement: &posture.PodPlacement{}}}))
	w.eventually(t, "the policies know it", func() error {
		if err := creates(slice("other", "bourse")); !isRefusal(err, "of the name that its reservations say") {
			return fmt.Errorf("another slice: %w", err)
		}
		return nil
	})
	updates := func(o kube.Object, change func()) error {
		must(w.admin.Get(ctx, kube.ObjectKeyFromObject(o), o))
		change()
		return lyon.Update(ctx, o, kube.DryRunAll)
	}
	for what, refused := range map[string]struct {
		err  error
		says string
	}{
		"it creates a slice of another class":               {creates(slice("rented", "default")), "of class bourse"},
		"it creates a map with a namespace of another name": {creates(mapping("shop")), "NAMESPACE-CONSUMER"},
		"it updates the class":                              {updates(stored, func() { stored.Spec.Class = "default" }), "of class bourse"},
		"it updates the map":                                {updates(names, func() { names.Spec.DesiredMapping["kube"] = "kube-lyon" }), "not named like those"},
		"it updates a label":                                {updates(stored, func() { stored.Labels["liqo.io/remote-cluster-id"] = "rome" }), "keeps them"},
	} {
		if !isRefusal(refused.err, refused.says) {
			t.Errorf("%s: %v", what, refused.err)
		}
	}
	must(w.admin.Get(ctx, kube.ObjectKeyFromObject(stored), stored))
	if err := lyon.Status().Update(ctx, stored); !isRefusal(err, "the provider's to say") {
		t.Errorf("it updates the status: %v", err)
	}
	if err := updates(stored, func() { stored.Spec.Resources = corev1.ResourceList{} }); err != nil {
		t.Errorf("it updates what it asks for: %v", err)
	}
	must(policies.UnlistPlain(ctx, "lyon"))
	w.eventually(t, "it makes any slice", func() error { return creates(slice("other", "default")) })
}
