package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

func TestPodsCountAsKubernetesCountsThem(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := aContainer("sidecar", "cpu", "100m")
	sidecar.RestartPolicy = &always
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   map[string]string // nil: does not count
	}{
		"its containers": {
			func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, aContainer("two", "cpu", "500m", "nvidia.com/gpu", "1"))
			},
			map[string]string{"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1", "pods": "1"},
		},
		"an init container that is larger": {
			func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{aContainer("init", "cpu", "3")} },
			map[string]string{"cpu": "3", "memory": "1Gi", "pods": "1"},
		},
		"a sidecar adds to containers and to later init containers": {
			func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{sidecar, aContainer("init", "cpu", "3")}
			},
			map[string]string{"cpu": "3100m", "memory": "1Gi", "pods": "1"},
		},
		"the overhead of its runtime": {
			func(p *corev1.Pod) { p.Spec.Overhead = list("memory", "128Mi") },
			map[string]string{"cpu": "1", "memory": "1152Mi", "pods": "1"},
		},
		"resources of the pod as a whole": {
			func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "2")} },
			map[string]string{"cpu": "2", "memory": "1Gi", "pods": "1"},
		},
		"a resize in place that is not done: the larger": {
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name:               "main",
					AllocatedResources: list("cpu", "2", "memory", "1Gi"),
					Resources:          &corev1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi")},
				}}
			},
			map[string]string{"cpu": "2", "memory": "1Gi", "pods": "1"},
		},
		"a pod without requests is a pod": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("cpu", "0") },
			map[string]string{"pods": "1"},
		},
		"one that is being deleted still runs": {
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
			map[string]string{"cpu": "1", "memory": "1Gi", "pods": "1"},
		},
		"one that is bound and not yet started": {
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
			map[string]string{"cpu": "1", "memory": "1Gi", "pods": "1"},
		},
		"one that waits for a node": {
			func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }, map[string]string{},
		},
		"one that succeeded": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, map[string]string{}},
		"one that failed":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, map[string]string{}},
		"one on a node that nobody knows": {
			func(p *corev1.Pod) { p.Spec.NodeName = "gone" }, map[string]string{},
		},
		"resources that no node has": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["example.com/invented"] = one },
			map[string]string{"cpu": "1", "memory": "1Gi", "pods": "1"},
		},
		"more than any node has is the most there is": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("memory", "7Ei") },
			map[string]string{"memory": "8Pi", "pods": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := byHand(t, Options{})
			must(t, i.nodes.Add(aNode("n", "cpu", "64", "memory", "64Gi", "nvidia.com/gpu", "8", "pods", "110")))
			p := aPod("p", "n", "cpu", "1", "memory", "1Gi")
			c.change(p)
			must(t, i.pods.Add(p))
			pool := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]
			if diff := cmp.Diff(c.want, plain(pool.Allocated)); diff != "" {
				t.Errorf("allocated (-want +got):\n%s", diff)
			}
			must(t, i.pods.Delete(p))
			if pool := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]; len(pool.Allocated) > 0 {
				t.Errorf("still allocated when it is gone: %v", plain(pool.Allocated))
			}
		})
	}
}

var one = list("x", "1")["x"]

// Labels that look like Liqo's mean nothing here: only Owner says whose a pod is, and only
// Consumer whether that is one of ours, now.
func TestOwnerDecidesWhoseAPodIs(t *testing.T) {
	granted := map[string]string{"slice-user": "rome", "other-slice-user": "rome", "milan-user": "milan"}
	i := byHand(t, Options{
		Owner:    func(pod *metav1.ObjectMeta) string { return pod.Annotations["made-by"] },
		Consumer: func(owner string) string { return granted[owner] },
	})
	must(t, i.nodes.Add(aNode("n", "cpu", "64")))
	add := func(name, madeBy, cpu string) {
		p := aPod(name, "n", "cpu", cpu)
		p.Labels = map[string]string{"liqo.io/managed-by": "shadowpod", "liqo.io/creator-user": "slice-user"}
		p.Annotations = map[string]string{"made-by": madeBy}
		must(t, i.pods.Update(p))
	}
	add("by-hand", "", "1")
	add("a", "slice-user", "2")
	add("b", "other-slice-user", "4")
	add("c", "milan-user", "8")
	add("d", "stranger", "16")

	check := func(allocated string, accounts map[string]string) {
		t.Helper()
		pool := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]
		got := map[string]string{}
		for consumer, account := range pool.Accounts {
			got[consumer] = plain(account.Used)["cpu"]
		}
		if diff := cmp.Diff(accounts, got); diff != "" {
			t.Errorf("accounts (-want +got):\n%s", diff)
		}
		if got := plain(pool.Allocated)["cpu"]; got != allocated {
			t.Errorf("allocated %s, want %s", got, allocated)
		}
	}
	check("17", map[string]string{"rome": "6", "milan": "8"})

	delete(granted, "milan-user") // the grant ends, the pod stays: it is now simply taken
	check("25", map[string]string{"rome": "6"})

	add("a", "", "2") // an owner that changes after all moves the pod
	check("27", map[string]string{"rome": "4"})
}

// The pods on a node are named until they end.
func TestPodsOnANode(t *testing.T) {
	i := byHand(t, Options{})
	for name, node := range map[string]string{"b": "here", "a": "here", "c": "elsewhere", "waits": ""} {
		must(t, i.pods.Add(aPod(name, node, "cpu", "1")))
	}
	gone := aPod("b", "here", "cpu", "1")
	must(t, i.pods.Delete(gone))
	if got := i.PodsOn("here"); len(got) != 1 || !strings.HasSuffix(got[0], "/a") {
		t.Errorf("here are %q", got)
	}
}
