package liqo

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
)

// Running is a pod that uses lent resources.
type Running struct {
	metav1.ObjectMeta
	Spec *corev1.PodSpec
	// First: evict this pod before all others.
	First bool
}

// Excess returns the pods to evict so that the rest fits into keep, in the order of eviction: those
// marked First, then by low priority, then the youngest. It considers only the resources that keep names.
func Excess(running []Running, keep api.Resources) []Running {
	rank := map[bool]int{true: 0, false: 1}
	order := slices.Clone(running)
	slices.SortStableFunc(order, func(a, b Running) int {
		return cmp.Or(cmp.Compare(rank[a.First], rank[b.First]),
			cmp.Compare(ptr.Deref(a.Spec.Priority, 0), ptr.Deref(b.Spec.Priority, 0)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	used := corev1.ResourceList{}
	for _, p := range order {
		add(used, p.Spec, 1)
	}
	var excess []Running
	for _, p := range order {
		if !takes(p.Spec, over(used, keep)) {
			continue // it uses no resource that is exceeded
		}
		add(used, p.Spec, -1)
		excess = append(excess, p)
	}
	return excess
}

func add(sum corev1.ResourceList, s *corev1.PodSpec, times int) {
	requests := helper.PodRequests(&corev1.Pod{Spec: *s}, helper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for name, amount := range requests {
		total := sum[name]
		if times < 0 {
			total.Sub(amount)
		} else {
			total.Add(amount)
		}
		sum[name] = total
	}
}

// over returns the resources whose use exceeds keep.
func over(used corev1.ResourceList, keep api.Resources) (names []corev1.ResourceName) {
	for name, most := range keep {
		if has, ok := used[name]; ok && has.Cmp(most) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// takes reports whether a pod requests one of the resources.
func takes(s *corev1.PodSpec, names []corev1.ResourceName) bool {
	requests := corev1.ResourceList{}
	add(requests, s, 1)
	return slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		amount := requests[name]
		return amount.Sign() > 0
	})
}
