package policies

import (
	"context"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// Liqo after 1.2 decides at the provider the class of a slice that names none, and writes it into status.class. A
// consumer may change such a slice if that is bourse, and no other. It cannot write the status itself.
func TestTheClassThatTheProviderDecides(t *testing.T) {
	w := start(t)
	ctx, namespace := t.Context(), "liqo-tenant-nice"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("resourceslices.authentication.liqo.io")
	must(w.admin.Patch(ctx, crd, kube.RawPatch(types.JSONPatchType, []byte(`[{"op":"add",`+
		`"path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/class","value":{"type":"string"}}]`))))
	must(kube.IgnoreAlreadyExists(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"liqo.io/remote-cluster-id": "nice", "liqo.io/tenant-namespace": "true"}}})))
	must(kube.IgnoreAlreadyExists(w.bind(ctx, namespace, "liqo-remote-controlplane", rbacv1.UserKind, "nice")))
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	nice := w.mustAs(t, controlPlaneOf("nice"))
	slice := func(name string) *unstructured.Unstructured {
		s := &unstructured.Unstructured{}
		s.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind))
		s.SetNamespace(namespace)
		s.SetName(name)
		s.SetLabels(map[string]string{"liqo.io/originID": "nice", "liqo.io/replicated": "true"})
		must(unstructured.SetNestedField(s.Object, "nice", "spec", "consumerClusterID"))
		return s
	}
	for name, class := range map[string]string{"decided": "bourse", "other": "default"} {
		w.eventually(t, "the slice "+name+" is stored", func() error { return kube.IgnoreAlreadyExists(nice.Create(ctx, slice(name))) })
		w.eventually(t, "its class is decided", func() error {
			s := slice(name)
			must(w.admin.Get(ctx, kube.ObjectKeyFromObject(s), s))
			must(unstructured.SetNestedField(s.Object, class, "status", "class"))
			must(w.admin.Status().Update(ctx, s))
			if got, _, _ := unstructured.NestedString(s.Object, "status", "class"); got != class {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		t.Cleanup(func() { _ = w.admin.Delete(context.Background(), slice(name)) })
	}
	policies := &posture.Policies{Known: w.admin, Reader: w.admin, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo"}
	refused, err := policies.Refused(ctx, "nice", namespace, []string{"decided", "other"}, 0)
	if err != nil || len(refused) != 1 || refused[0] != "ResourceSlice other of class default" {
		t.Errorf("the policies would refuse %q, %v", refused, err)
	}
	named := func(name string) posture.Slice {
		return posture.Slice{Name: name, CSR: 500, User: name + "-1a2b3c", Placement: &posture.PodPlacement{}}
	}
	must(policies.List(ctx, "nice", &posture.Demands{Plain: true}, []posture.Slice{named("decided"), named("other"), named("new")}))
	update := func(name string) error {
		s := slice(name)
		must(w.admin.Get(ctx, kube.ObjectKeyFromObject(s), s))
		must(unstructured.SetNestedField(s.Object, "4", "spec", "resources", "cpu"))
		return nice.Update(ctx, s, kube.DryRunAll)
	}
	w.eventually(t, "the policies know it", func() error {
		if err := update("other"); !isRefusal(err, "of class bourse") {
			return fmt.Errorf("a slice of class default: %w", err)
		}
		return nil
	})
	if err := update("decided"); err != nil {
		t.Errorf("a slice for which the provider decided bourse: %v", err)
	}
	claims := slice("new")
	must(unstructured.SetNestedField(claims.Object, "bourse", "status", "class"))
	if err := nice.Create(ctx, claims, kube.DryRunAll); !isRefusal(err, "of class bourse") {
		t.Errorf("a new slice that claims the class in its status: %v", err)
	}
	must(policies.UnlistPlain(ctx, "nice"))
}
