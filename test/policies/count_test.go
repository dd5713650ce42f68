package policies

import (
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// of makes a pod of containers that request so much cpu.
func of(containers, initContainers []string) *offv1beta1.ShadowPod {
	o := honest("shadowpods", "counted").(*offv1beta1.ShadowPod)
	s := &o.Spec.Pod
	main, before := s.Containers[0], s.InitContainers[0]
	s.Containers, s.InitContainers = nil, nil
	with := func(c corev1.Container, n int, cpu string) corev1.Container {
		c = *c.DeepCopy()
		c.Name = fmt.Sprintf("%s%d", c.Name, n)
		c.Resources.Limits, c.Resources.Requests = nil, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse("1Mi")}
		return c
	}
	for i, cpu := range containers {
		s.Containers = append(s.Containers, with(main, i, cpu))
	}
	for i, cpu := range initContainers {
		s.InitContainers = append(s.InitContainers, with(before, i, cpu))
	}
	return o
}

// countedByLiqo is the cpu that Liqo v1.2 counts of a pod: of init containers the first of those
// that request most, by whole CPUs rounded up.
func countedByLiqo(s *corev1.PodSpec) resource.Quantity {
	var sum, first resource.Quantity
	for _, c := range s.Containers {
		sum.Add(c.Resources.Requests[corev1.ResourceCPU])
	}
	for _, c := range s.InitContainers {
		if cpu := c.Resources.Requests[corev1.ResourceCPU]; first.Value() < cpu.Value() {
			first = cpu
		}
	}
	if sum.Cmp(first) < 0 {
		return first
	}
	return sum
}

// A pod is let in where Liqo counts what Kubernetes takes for it, and is refused where Liqo counts less.
func TestInitContainersAreCounted(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	ctx := t.Context()
	check := func(t interface {
		Helper()
		Errorf(string, ...any)
	}, o *offv1beta1.ShadowPod, what string) {
		t.Helper()
		counts, takes := countedByLiqo(&o.Spec.Pod), helper.PodRequests(&corev1.Pod{Spec: o.Spec.Pod},
			helper.PodResourcesOptions{})[corev1.ResourceCPU]
		err := c.Create(ctx, o, kube.DryRunAll)
		if less := counts.Cmp(takes) < 0; less != (err != nil) ||
			err != nil && !strings.Contains(err.Error(), "than Liqo counts") {
			t.Errorf("%s: Liqo counts %s of %s: %v", what, counts.String(), takes.String(), err)
		}
	}
	for _, pod := range [][2][]string{
		{{"1m"}, {"1m", "1"}}, {{"1m"}, {"1", "1m"}}, {{"1m"}, {"1500m", "2"}}, {{"1m"},
			{"1", "1500m"}}, {{"1m"}, {"100m", "2"}}, {{"1m"}, {"2", "2", "1"}},
		{{"700m", "100m"}, {"100m", "800m"}}, {{"100m"}, {"100m", "100m"}}, {{"1m"},
			{"500m", "1200m"}}, {{"1m"}, {"1", "1000000001n"}}, {{"1m"}, {"1", "500m", "2", "1500m"}},
	} {
		check(t, of(pod[0], pod[1]), fmt.Sprint(pod))
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		cpus := func(least int, name string) []string {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return fmt.Sprintf("%dm", 100*rapid.IntRange(1, 35).Draw(t, "cpu"))
			}), least, 4).Draw(t, name)
		}
		containers, before := cpus(1, "containers"), cpus(0, "init containers")
		check(t, of(containers, before), fmt.Sprint(containers, before))
	})
}

// What Kubernetes or Liqo made for an object goes with it: of a pod without its ShadowPod Liqo
// counts nothing, of EndpointSlices without their Service no quota does, and Liqo refuses what
// Kubernetes would write into a ShadowPod that is deleted otherwise. The Quota of a ResourceSlice
// that is gone would grant on what no agent could take back.
func TestNothingIsOrphaned(t *testing.T) {
	w := start(t)
	for _, resource := range []string{"shadowpods", "shadowendpointslices",
		"services", "resourceslices", "renews", "namespacemaps"} {
		c := w.mustAs(t, accountFor(resource))
		o := honest(resource, "orphans")
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		orphan := true
		for _, how := range []kube.DeleteOption{
			kube.PropagationPolicy(metav1.DeletePropagationOrphan), kube.PropagationPolicy(metav1.DeletePropagationForeground),
			//lint:ignore SA1019 API servers still obey it
			&kube.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: &orphan}},
		} {
			if err := c.Delete(t.Context(), o, how); !isRefusal(err, "in the background") {
				t.Errorf("%s: a deletion by %+v is let in: %v", resource, how, err)
			}
			if o.GetNamespace() != tenant { // only there it may delete all at once
				continue
			}
			all := &kube.DeleteAllOfOptions{ListOptions: kube.ListOptions{Namespace: tenant}}
			how.ApplyToDelete(&all.DeleteOptions)
			if err := c.DeleteAllOf(t.Context(), o, all); !isRefusal(err, "in the background") {
				t.Errorf("%s: a deletion of all by %+v is let in: %v", resource, how, err)
			}
		}
		if err := c.Delete(t.Context(), o, kube.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Error(err)
		}
	}
}
