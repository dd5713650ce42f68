package kubeobject

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodsAtOnce is how many pods, or objects with the spec of a pod, are read in one answer. Each may have 1.5 MiB, the
// most that etcd takes, and the party that makes them decides how many there are.
const PodsAtOnce = 32

// KeepRequests removes from a pod, or from an object with its spec, all but what its place and its eviction depend on:
// its identity, owners, labels, priority and requests. What is left takes little memory.
func KeepRequests(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	meta.Annotations, meta.ManagedFields = nil, nil
	requests := func(all []corev1.Container) (out []corev1.Container) {
		for _, c := range all {
			out = append(out, corev1.Container{RestartPolicy: c.RestartPolicy,
				Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests}})
		}
		return out
	}
	*spec = corev1.PodSpec{NodeName: spec.NodeName, Priority: spec.Priority, Overhead: spec.Overhead,
		Resources: spec.Resources, Containers: requests(spec.Containers), InitContainers: requests(spec.InitContainers)}
}

// ListPods lists pods in pages, and keeps of each its phase, its conditions, and what [KeepRequests] keeps.
func ListPods(ctx context.Context, r client.Reader, how ...client.ListOption) (pods []corev1.Pod, err error) {
	err = EachPage(ctx, r, func() *corev1.PodList { return &corev1.PodList{} }, func(page *corev1.PodList) {
		for _, p := range page.Items {
			KeepRequests(&p.ObjectMeta, &p.Spec)
			p.Status = corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions}
			pods = append(pods, p)
		}
	}, how...)
	return pods, err
}

// EachPage lists objects in answers of at most PodsAtOnce, and calls do with each answer. It keeps none. r reads from
// the API server: a cache knows no pages. Errors: those of the API server, which ends a list that takes too long, and
// then do has had a part of it.
func EachPage[L client.ObjectList](ctx context.Context, r client.Reader, empty func() L, do func(L), how ...client.ListOption) error {
	for next := ""; ; {
		page := empty()
		if err := r.List(ctx, page, append(how[:len(how):len(how)], client.Limit(PodsAtOnce), client.Continue(next))...); err != nil {
			return err
		}
		do(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
