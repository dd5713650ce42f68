package policies

import (
	"context"
	"fmt"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

const hubNamespace = "hub-rome"

// In a hub, a customer's pod that selects virtual nodes waits until its namespace is offloaded. Events
// that name providers stay out of that namespace.
func TestNamespacesOfAHub(t *testing.T) {
	w := start(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubNamespace, Labels: map[string]string{
		"liqo.io/remote-cluster-id": "rome", "bourse.dev/guarded": "true", "liqo.io/scheduling-enabled": "true"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "default"}}
	for _, o := range []kube.Object{ns, account} {
		if err := w.admin.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	pod := func(selects, tolerates bool) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "p",
			Labels: map[string]string{"liqo.io/managed-by": "shadowpod"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/c"}}}}
		if selects {
			p.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"}
		}
		if tolerates {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists}}
		}
		return w.admin.Create(t.Context(), p, kube.DryRunAll)
	}
	w.eventually(t, "a pod that comes early is refused", func() error {
		if err := pod(true, false); !isRefusal(err, "has not offloaded the namespace yet") {
			return fmt.Errorf("it is let in: %w", err)
		}
		return nil
	})
	for name, err := range map[string]error{"one that may run": pod(true, true), "one of another pool": pod(false, false)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	event := func(namespace, by string) error {
		return w.admin.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "e"},
			InvolvedObject: corev1.ObjectReference{Namespace: namespace, Kind: "Pod", Name: "p"},
			Source:         corev1.EventSource{Component: by}, Message: "to cluster milan",
		}, kube.DryRunAll)
	}
	for _, by := range []string{"liqo-pod-reflection", "kubelet (remote)"} {
		w.eventually(t, "an Event of "+by+" is refused", func() error {
			if err := event(hubNamespace, by); !isRefusal(err, "do not learn from whom") {
				return fmt.Errorf("it is let in: %w", err)
			}
			return nil
		})
	}
	for name, err := range map[string]error{"the scheduler's": event(hubNamespace, "default-scheduler"),
		"one at a provider": event(mapped, "liqo-pod-reflection")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A consumer maps as many namespaces as the provider says, by default 64.
func TestHowManyNamespaces(t *testing.T) {
	w := start(t)
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := w.mustAs(t, controlPlaneOf("rome"))
	maps := func(count int) error {
		o := honest("namespacemaps", "many").(*offv1beta1.NamespaceMap)
		o.Spec.DesiredMapping = map[string]string{}
		for i := range count {
			o.Spec.DesiredMapping[fmt.Sprintf("n-%d", i)] = fmt.Sprintf("n-%d-rome", i)
		}
		return c.Create(t.Context(), o, kube.DryRunAll)
	}
	if err := maps(65); !isRefusal(err, "64 namespaces") {
		t.Errorf("65 by default: %v", err)
	}
	m := &corev1.ConfigMap{}
	if err := w.admin.Get(t.Context(), kube.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}, m); err != nil {
		t.Fatal(err)
	}
	m.Data["rome.namespaces"] = "1024"
	if err := w.keeper.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "1024 of 1024", func() error { return maps(1024) })
	if err := maps(1025); !isRefusal(err, "namespaces.max") {
		t.Errorf("1025 of 1024: %v", err)
	}
}
