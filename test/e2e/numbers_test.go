package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

func TestNumbersFollowNodesAndPods(t *testing.T) {
	w := start(t)
	n := w.now(t, w.milan, "cpu")

	if err := w.milan.Cluster.AddNodes(t.Context(), node("milan-9", "16")); err != nil {
		t.Fatal(err)
	}
	extra := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-9"}}
	t.Cleanup(func() { remove(t, w.milan, extra) })
	n = w.shows(t, w.milan, "cpu", n.have(16000))

	pod := runPod(t, w.milan, "worker", nil)
	n = w.shows(t, w.milan, "cpu", n.take(3000))

	remove(t, w.milan, pod)
	n = w.shows(t, w.milan, "cpu", n.take(-3000))

	if err := w.milan.Cluster.SetReady(t.Context(), "milan-9", false); err != nil {
		t.Fatal(err)
	}
	n = w.shows(t, w.milan, "cpu", n.have(-16000))

	if err := w.milan.Cluster.SetReady(t.Context(), "milan-9", true); err != nil {
		t.Fatal(err)
	}
	n = w.shows(t, w.milan, "cpu", n.have(16000))

	remove(t, w.milan, extra)
	w.shows(t, w.milan, "cpu", n.have(-16000))
}

// What Liqo writes on the pods that it makes for others, anybody can write. It must not make a pod
// of the provider's own count as part of what a consumer has reserved: it takes from what is
// available.
func TestPodsWithLiqoLikeLabelsAreNotOurs(t *testing.T) {
	w := start(t)
	r := ask(t, w.rome, "default", "beside-pods", api.Request{Resources: cpu("4"), Target: "paris"})
	becomes(t, w.rome, r, api.Reserved)
	n := w.now(t, w.paris, "cpu")
	pod := runPod(t, w.paris, "looks-like-liqos", map[string]string{
		"liqo.io/managed-by":         "shadowpod",
		"liqo.io/creator-user":       "rome",
		"liqo.io/origin-cluster-id":  "rome",
		"liqo.io/remote-cluster-id":  "rome",
		"offloading.liqo.io/origin":  "rome",
		"offloading.liqo.io/reserve": r.Status.Reservation,
	})
	n = w.shows(t, w.paris, "cpu", n.take(3000))
	remove(t, w.paris, pod)
	w.shows(t, w.paris, "cpu", n.take(-3000))
}

func cpu(amount string) api.Resources { return api.Resources{"cpu": resource.MustParse(amount)} }

// runPod runs a pod that requests 3 CPU, labelled and annotated alike, until the test ends.
func runPod(t *testing.T, m *federation.Member, name string, marks map[string]string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: marks, Annotations: marks},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: cpu("3")},
		}}},
	}
	if err := m.Objects.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, m, pod) })
	return pod
}

// remove deletes an object that may be gone already.
func remove(t *testing.T, m *federation.Member, o kube.Object) {
	t.Helper()
	if err := m.Objects.Delete(context.Background(), o); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
