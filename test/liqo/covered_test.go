package liqo

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A pool that has nodes of its own, by a label and a taint, keeps room for what is reserved there:
// the provider's own pods, which want more than there is, never come, and a consumer's pods that
// tolerate the taint run.
func TestATaintReservesThePoolsNodes(t *testing.T) {
	w := start(t)
	const key = "example.com/lent"
	w.changeNode(t, w.milan, "milan-2", func(n *corev1.Node) {
		n.Labels[key] = "true"
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	})
	t.Cleanup(func() {
		w.changeNode(t, w.milan, "milan-2", func(n *corev1.Node) {
			delete(n.Labels, key)
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		})
		w.offers(t, "milan", map[string]string{api.GeneralPool: "32"})
	})
	w.withPolicy(t, w.milan, func(s *api.Sharing) {
		s.Pools[0].NodeSelector, s.Pools[0].TolerateTaints = map[string]string{key: "true"}, []string{key}
	})
	w.offers(t, "milan", map[string]string{api.GeneralPool: "16"})
	a := w.ask(t, w.rome, w.milan, "own-nodes", amounts("8", "8Gi"))
	a.becomes(api.Active)
	own := w.hungry(t, w.milan, 64, "500m", "256Mi")
	w.ownRuns(t, own, 32) // all of the other node's 16 cores
	a.run(6, "1200m", "512Mi", func(p *corev1.PodSpec) {
		p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	})
	a.running(w.milan, 6)
	w.ownRuns(t, own, 32)
	d, err := w.milan.People(0).Diagnose(t.Context())
	if err != nil || slices.ContainsFunc(d.Problems, is(health.NotCovered, "pool general")) {
		t.Errorf("%+v, %v", d.Problems, err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// changeNode updates a node of a cluster.
func (w *world) changeNode(t *testing.T, at *federation.Member, name string, change func(*corev1.Node)) {
	t.Helper()
	eventually(t, "node "+name+" is changed", func(ctx context.Context) error {
		var n corev1.Node
		if err := at.Objects.Get(ctx, kube.ObjectKey{Name: name}, &n); err != nil {
			return err
		}
		change(&n)
		return at.Objects.Update(ctx, &n)
	})
}

// On nodes that its own pods share with a pool, a provider's pods may take what is reserved: its
// doctor tells, until they are moved.
func TestReservedIsNotCovered(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "uncovered", amounts("8", "8Gi"))
	a.becomes(api.Active)
	own := w.hungry(t, w.milan, 64, "500m", "256Mi")
	w.ownRuns(t, own, 64) // all of 32 cores
	w.finds(t, w.milan, health.NotCovered, "pool general")
	w.shrinkOwn(t, own, 16)
	eventually(t, "it is covered again", func(ctx context.Context) error {
		d, err := w.milan.People(0).Diagnose(ctx)
		if err == nil && slices.ContainsFunc(d.Problems, is(health.NotCovered, "pool general")) {
			err = fmt.Errorf("it finds %+v", d.Problems)
		}
		return err
	})
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// hungry is a Deployment of the cluster's own that wants more than there is.
func (w *world) hungry(t *testing.T, at *federation.Member, replicas int32, cpu, memory string) *appsv1.Deployment {
	t.Helper()
	labels, grace := map[string]string{"app": "hungry"}, int64(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hungry"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
					Name: "own", Image: "localhost/own", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts(cpu, memory))},
				}}},
			}},
	}
	if err := at.Objects.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = at.Objects.Delete(context.Background(), d, kube.PropagationPolicy(metav1.DeletePropagationForeground))
		eventually(t, "the hungry are gone", func(ctx context.Context) error {
			var list corev1.PodList
			err := at.Objects.List(ctx, &list, kube.InNamespace("default"), kube.MatchingLabels(labels))
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d are there", len(list.Items))
			}
			return err
		})
	})
	return d
}

// shrinkOwn leaves so many pods of the Deployment.
func (w *world) shrinkOwn(t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	if err := w.milan.Objects.Patch(t.Context(), d, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.ownRuns(t, d, int(replicas))
}

// ownRuns waits until so many pods of the Deployment run, and all others wait for room.
func (w *world) ownRuns(t *testing.T, d *appsv1.Deployment, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d of the provider's own pods run", want), func(ctx context.Context) error {
		var list corev1.PodList
		if err := w.milan.Objects.List(ctx, &list, kube.InNamespace(d.Namespace),
			kube.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		run, tried := 0, 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				run++
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					tried++
				}
			}
		}
		if run != want || run+tried != int(*d.Spec.Replicas) {
			return fmt.Errorf("%d run, %d found no room", run, tried)
		}
		return nil
	})
}
