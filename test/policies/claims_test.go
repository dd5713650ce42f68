package policies

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// At which node the volume of a claim is, who may bind pods there says. Others make claims, change the rest of one
// that has a node, and take the node away.
func TestWhoSaysWhereAVolumeIs(t *testing.T) {
	w := start(t)
	rule := func(name string, resources ...string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: resources, Verbs: []string{"create", "get", "patch", "update"}}}}
	}
	if err := errors.Join(w.admin.Create(t.Context(), rule("claims", "persistentvolumeclaims")),
		w.admin.Create(t.Context(), rule("schedules", "persistentvolumeclaims", "pods/binding")),
		w.bind(t.Context(), own, "claims", rbacv1.UserKind, "tenant-of-claims"),
		w.bind(t.Context(), own, "schedules", rbacv1.UserKind, "scheduler")); err != nil {
		t.Fatal(err)
	}
	by := func(name string) kube.Client {
		return w.mustAs(t, account{name, rest.ImpersonationConfig{UserName: name}})
	}
	const key, says = "volume.kubernetes.io/selected-node", "a scheduler writes the annotation"
	claim := func(node string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "data"}}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if node != "" {
			c.Annotations = map[string]string{key: node}
		}
		return c
	}
	tenants, scheduler := by("tenant-of-claims"), by("scheduler")
	w.eventually(t, "the policy is in force", func() error {
		if err := tenants.Create(t.Context(), claim("b-general-x"), kube.DryRunAll); !isRefusal(err, says) {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if err := scheduler.Create(t.Context(), claim("b-general-x"), kube.DryRunAll); err != nil {
		t.Errorf("a scheduler: %v", err)
	}
	made := claim("")
	if err := tenants.Create(t.Context(), made); err != nil {
		t.Fatalf("a claim without a node: %v", err)
	}
	defer func() { _ = w.admin.Delete(t.Context(), made) }()
	becomes := func(by kube.Client, node string, label string, options ...kube.PatchOption) error {
		next := made.DeepCopy()
		if delete(next.Annotations, key); node != "" {
			next.Annotations = with(next.Annotations, key, node)
		}
		next.Labels = map[string]string{"label": label}
		err := by.Patch(t.Context(), next, kube.MergeFrom(made), options...)
		if err == nil && len(options) == 0 {
			made = next
		}
		return err
	}
	if err := becomes(tenants, "b-general-x", ""); !isRefusal(err, says) {
		t.Errorf("its tenant says where it is: %v", err)
	}
	if err := becomes(scheduler, "b-general-x", ""); err != nil {
		t.Fatalf("a scheduler says where it is: %v", err)
	}
	if err := becomes(tenants, "b-general-y", "", kube.DryRunAll); !isRefusal(err, says) {
		t.Errorf("its tenant says that it is elsewhere: %v", err)
	}
	if err := becomes(tenants, "b-general-x", "x", kube.DryRunAll); err != nil {
		t.Errorf("its tenant changes another thing: %v", err)
	}
	if err := becomes(tenants, "", "", kube.DryRunAll); err != nil {
		t.Errorf("its tenant takes it away: %v", err)
	}
}
