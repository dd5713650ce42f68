package liqo

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// Jobs keep their pods. On a reservation with room for two, the next two run once the first two have ended, although
// Liqo's quota still counts those. No more than what is reserved runs: the virtual node keeps its size.
func TestJobsOneAfterTheOther(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "jobs", amounts("1", "1Gi"))
	a.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "1")
	a.job("first", 2)
	a.jobRuns("first", 2)
	a.endPods(w.milan)
	a.job("second", 2)
	a.jobRuns("second", 2)
	a.job("third", 1)
	eventually(t, "a third Job waits for a node", func(ctx context.Context) error {
		pods, err := a.jobPods(ctx, "third")
		if err != nil || len(pods) != 1 || len(pods[0].Status.Conditions) == 0 ||
			pods[0].Status.Conditions[0].Reason != corev1.PodReasonUnschedulable {
			return fmt.Errorf("%+v, %v", pods, err)
		}
		return nil
	})
	var node corev1.Node
	key := kube.ObjectKey{Name: market.SliceName("rome", "milan", api.GeneralPool)}
	if err := w.rome.Objects.Get(t.Context(), key, &node); err != nil || node.Status.Allocatable.Cpu().String() != "1" {
		t.Errorf("the virtual node has %s CPUs, %v", node.Status.Allocatable.Cpu(), err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// job makes a Job of so many pods of 400m, which may run anywhere but on the cluster's own nodes.
func (a *asked) job(name string, pods int32) {
	a.t.Helper()
	grace := int64(1)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: a.request.Namespace, Name: name},
		Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
				NodeSelector: map[string]string{"liqo.io/type": "virtual-node"},
				Containers: []corev1.Container{{Name: "work", Image: "localhost/work",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("400m", "64Mi"))}}},
			}}}}
	if err := a.from.Objects.Create(a.t.Context(), j); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = a.from.Objects.Delete(context.Background(), j, kube.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

func (a *asked) jobPods(ctx context.Context, job string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := a.from.Objects.List(ctx, &list, kube.InNamespace(a.request.Namespace),
		kube.MatchingLabels{batchv1.JobNameLabel: job})
	return list.Items, err
}

// jobRuns waits until so many pods of a Job run.
func (a *asked) jobRuns(job string, pods int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%d pods of Job %s run", pods, job), func(ctx context.Context) error {
		list, err := a.jobPods(ctx, job)
		n, why := 0, ""
		for _, p := range list {
			if p.Status.Phase == corev1.PodRunning {
				n++
			} else {
				why += fmt.Sprintf(" %s is %s at %q %s", p.Name, p.Status.Phase, p.Spec.NodeName, p.Status.Message)
			}
		}
		if err == nil && n != pods {
			err = fmt.Errorf("%d run;%s", n, why)
		}
		return err
	})
}

// endPods has all pods of the namespace succeed at the provider, and waits until they have succeeded here.
func (a *asked) endPods(provider *federation.Member) {
	a.t.Helper()
	var list corev1.PodList
	if err := provider.Objects.List(a.t.Context(), &list, kube.InNamespace(a.request.Namespace+"-"+a.from.Name)); err != nil {
		a.t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		before := p.DeepCopy()
		p.Status.Phase = corev1.PodSucceeded
		if err := provider.Objects.Status().Patch(a.t.Context(), p, kube.MergeFrom(before)); err != nil {
			a.t.Fatal(err)
		}
	}
	eventually(a.t, "the pods have succeeded at home", func(ctx context.Context) error {
		err := a.from.Objects.List(ctx, &list, kube.InNamespace(a.request.Namespace))
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodSucceeded {
				err = fmt.Errorf("%s is %s", p.Name, p.Status.Phase)
			}
		}
		return err
	})
}
