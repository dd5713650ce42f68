package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// Where namespace bourse is deleted, and with it the list of consumers, an admin makes and changes
// what a cluster consists of, as ever. A brokered consumer can write nothing: nobody says any more
// that it is one.
func TestTheListOfConsumersIsGone(t *testing.T) {
	w := start(t)
	objects := func(namespace string) []kube.Object {
		named := metav1.ObjectMeta{Namespace: namespace, Name: "gone"}
		fast := "fast"
		return []kube.Object{
			&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.PersistentVolumeClaim{ObjectMeta: named, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &fast, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}},
			&corev1.Secret{ObjectMeta: named}, &corev1.ConfigMap{ObjectMeta: named},
			&corev1.Event{ObjectMeta: named, InvolvedObject: corev1.ObjectReference{Namespace: namespace},
				FirstTimestamp: metav1.Now()},
			&networkingv1.Ingress{ObjectMeta: named, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}
	}
	kubelet := w.mustAs(t, kubeletOf("rome", user))
	// The namespace: without controllers it is its contents that have to be deleted.
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-consumers"}}
	w.withoutGuard(t, func() error { return w.admin.Delete(t.Context(), list) })
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.eventually(t, "the API server has seen it", func() error {
		err := kubelet.Create(t.Context(), objects(mapped)[3], kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "no params found") {
			return fmt.Errorf("a consumer writes as before: %w", err)
		}
		return nil
	})
	for _, namespace := range []string{own, metav1.NamespaceDefault, tenant} {
		for _, o := range objects(namespace) {
			if err := w.admin.Create(t.Context(), o); err != nil {
				t.Errorf("an admin cannot make a %T in %s: %v", o, namespace, err)
				continue
			}
			o.SetLabels(map[string]string{"changed": "true"})
			if err := w.admin.Update(t.Context(), o); err != nil {
				t.Errorf("an admin cannot change a %T in %s: %v", o, namespace, err)
			}
			if err := w.admin.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
	}
	for _, o := range objects(mapped) {
		if err := kubelet.Create(t.Context(), o, kube.DryRunAll); err == nil {
			t.Errorf("a brokered consumer makes a %T", o)
		}
	}
}

// A Secret with a label on which Liqo acts, which a consumer left before the policies were there,
// is not changed any more. It can be deleted, and lose the label.
func TestASecretFromBefore(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	for key, value := range map[string]string{"liqo.io/identity-type": "ControlPlane",
		"liqo.io/webhook": "true", "networking.liqo.io/gateway-resource": "true"} {
		s := honest("secrets", "left").(*corev1.Secret)
		s.Labels[key] = value
		if err := w.admin.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		changed := s.DeepCopy()
		changed.Data["kubeconfig"] = []byte("users: []")
		if err := c.Update(t.Context(), changed, kube.DryRunAll); !isRefusal(err, "of Liqo's labels") {
			t.Errorf("%s: it is changed: %v", key, err)
		}
		if err := c.Patch(t.Context(), changed, kube.MergeFrom(s), kube.DryRunAll); !isRefusal(err, "of Liqo's labels") {
			t.Errorf("%s: it is patched: %v", key, err)
		}
		without := s.DeepCopy()
		delete(without.Labels, key)
		if err := c.Update(t.Context(), without, kube.DryRunAll); err != nil {
			t.Errorf("%s: it cannot lose the label: %v", key, err)
		}
		if err := c.Delete(t.Context(), s); err != nil {
			t.Errorf("%s: it cannot be deleted: %v", key, err)
		}
	}
}

// Until a namespace is guarded, nothing is made in it: it has no quota yet, so that what is made
// there would stay uncounted. Where it is, the same is let in.
func TestANamespaceThatIsNotGuarded(t *testing.T) {
	w := start(t)
	const young = "young-rome"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: young,
		Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}}}
	if err := w.admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := w.bind(t.Context(), young, "liqo-virtual-kubelet-remote", rbacv1.GroupKind, "rome"); err != nil {
		t.Fatal(err)
	}
	kubelet := w.mustAs(t, kubeletOf("rome", user))
	kinds := []string{"configmaps", "secrets", "services", "persistentvolumeclaims",
		"ingresses", "shadowpods", "shadowendpointslices"}
	make := func(resource string) error {
		o := honest(resource, "young")
		o.SetNamespace(young)
		return kubelet.Create(t.Context(), o, kube.DryRunAll)
	}
	for _, resource := range kinds {
		w.eventually(t, "until the binding is known", func() error {
			err := make(resource)
			if isPolicy(err) || err == nil {
				return nil
			}
			return err
		})
		if err := make(resource); !isRefusal(err, "not guarded yet") {
			t.Errorf("%s: %v", resource, err)
		}
	}
	ns.Labels["bourse.dev/guarded"] = "true"
	if err := w.admin.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for _, resource := range kinds {
		w.eventually(t, resource+" once the namespace is guarded", func() error { return make(resource) })
	}
}
