package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A consumer deletes pods that ignore SIGTERM and makes others: Liqo counts the former no more.
// They take no more than is reserved too; when the reservation has ended, nothing runs any more,
// and it is the provider's again.
func TestPodsThatRunOnAreCounted(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "runs-on", amounts("1", "1Gi"))
	a.becomes(api.Active)
	kubelet := w.as(t, w.rome, w.milan, "kubeconfig-resourceslice-"+market.SliceName("rome", "milan", api.GeneralPool))
	// as long as the policy lets it be; left alone, Kubernetes looks at its namespace again after half of it
	long := int64(3600)
	pod := func(name string) *offv1beta1.ShadowPod {
		return &offv1beta1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runs-on-rome", Name: name,
				Annotations: map[string]string{"lab.bourse.dev/ignores": "SIGTERM"},
				Labels:      map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}},
			Spec: offv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{TerminationGracePeriodSeconds: &long,
				Containers: []corev1.Container{{
					Name: "c", Image: "localhost/c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("700m", "128Mi"))},
				}}}},
		}
	}
	makes := func(name string) *offv1beta1.ShadowPod {
		p := pod(name)
		eventually(t, name+" is let in", func(ctx context.Context) error { return kubelet.Create(ctx, p) })
		return p
	}
	first := makes("first")
	w.runs(t, w.milan, "runs-on-rome", "first")
	if err := kubelet.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.ends(t, w.milan, "runs-on-rome", "first")
	second := makes("second") // Liqo lets it in
	eventually(t, "Kubernetes refuses its pod", func(ctx context.Context) error {
		var events corev1.EventList
		if err := w.milan.Objects.List(ctx, &events, kube.InNamespace("runs-on-rome")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == second.Name && strings.Contains(e.Message, "exceeded quota") {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(events.Items))
	})
	if has, err := w.takes(t.Context(), w.milan, "runs-on-rome"); err != nil || has.Cmp(resource.MustParse("1")) > 0 {
		t.Errorf("pods take %s of 1 CPU, %v", has.String(), err)
	}
	a.release()
	eventually(t, "the first is killed", func(ctx context.Context) error {
		var p corev1.Pod
		err := w.milan.Objects.Get(ctx, kube.ObjectKeyFromObject(first), &p)
		if err == nil {
			err = fmt.Errorf("it is there, until %s", p.DeletionTimestamp)
		}
		return kube.IgnoreNotFound(err)
	})
	w.nothingLeft(t, w.rome, w.milan)
}

// runs waits until a pod runs.
func (w *world) runs(t *testing.T, at *federation.Member, namespace, name string) {
	t.Helper()
	eventually(t, name+" runs", func(ctx context.Context) error {
		var p corev1.Pod
		err := at.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, &p)
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

// ends waits until the deletion of a pod has begun.
func (w *world) ends(t *testing.T, at *federation.Member, namespace, name string) {
	t.Helper()
	eventually(t, name+" is being deleted", func(ctx context.Context) error {
		var p corev1.Pod
		err := at.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, &p)
		if err == nil && p.DeletionTimestamp == nil {
			err = fmt.Errorf("it is not")
		}
		return err
	})
}

// takes is the cpu that the pods of a namespace take of nodes.
func (w *world) takes(ctx context.Context, at *federation.Member, namespace string) (sum resource.Quantity, err error) {
	var pods corev1.PodList
	err = at.Objects.List(ctx, &pods, kube.InNamespace(namespace))
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" {
			sum.Add(helper.PodRequests(&p, helper.PodResourcesOptions{})[corev1.ResourceCPU])
		}
	}
	return sum, err
}
