package inventory

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

func TestWhichNodesCount(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	label := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[key] = value }
	}
	readiness := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
	}
	tolerating := api.PoolPolicy{TolerateTaints: []string{"gpu", corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable}}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		policy api.PoolPolicy
		counts bool
	}{
		"as it is":                    {func(*corev1.Node) {}, api.PoolPolicy{}, true},
		"not ready":                   {readiness(corev1.ConditionFalse), api.PoolPolicy{}, false},
		"not heard of":                {readiness(corev1.ConditionUnknown), api.PoolPolicy{}, false},
		"never heard of":              {func(n *corev1.Node) { n.Status.Conditions = nil }, api.PoolPolicy{}, false},
		"cordoned":                    {func(n *corev1.Node) { n.Spec.Unschedulable = true }, api.PoolPolicy{}, false},
		"cordoned, tolerated":         {func(n *corev1.Node) { n.Spec.Unschedulable = true }, tolerating, false},
		"virtual, of Liqo":            {label("liqo.io/type", "virtual-node"), api.PoolPolicy{}, false},
		"virtual, of others":          {label("type", "virtual-kubelet"), api.PoolPolicy{}, false},
		"tainted, no schedule":        {taint("gpu", corev1.TaintEffectNoSchedule), api.PoolPolicy{}, false},
		"tainted, no execute":         {taint("gpu", corev1.TaintEffectNoExecute), api.PoolPolicy{}, false},
		"tainted, prefer no schedule": {taint("gpu", corev1.TaintEffectPreferNoSchedule), api.PoolPolicy{}, true},
		"tainted, tolerated":          {taint("gpu", corev1.TaintEffectNoSchedule), tolerating, true},
		"tainted, another tolerated":  {taint("other", corev1.TaintEffectNoSchedule), tolerating, false},
		"selected": {label("disk", "ssd"),
			api.PoolPolicy{NodeSelector: map[string]string{"disk": "ssd"}}, true},
		"not selected": {label("disk", "hdd"),
			api.PoolPolicy{NodeSelector: map[string]string{"disk": "ssd"}}, false},
		"not ready, with its taint tolerated": {func(n *corev1.Node) {
			readiness(corev1.ConditionFalse)(n)
			taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)(n)
		}, tolerating, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := byHand(t, Options{})
			n := aNode("n", "cpu", "4")
			must(t, i.pods.Add(aPod("p", "n", "cpu", "1"))) // pods may be known before their node
			c.change(n)
			must(t, i.nodes.Add(n))
			want := map[string]string{}
			allocated := map[string]string{}
			if c.counts {
				want["cpu"], allocated["cpu"] = "4", "1"
			}
			pool := i.Measure([]api.PoolPolicy{c.policy}, nil).Pools[""]
			for field, got := range map[string][2]map[string]string{
				"capacity":    {want, plain(pool.Capacity)},
				"allocatable": {want, plain(pool.Allocatable)},
				"shared":      {want, plain(pool.Shared)},
				"allocated":   {allocated, plain(pool.Allocated)},
			} {
				if diff := cmp.Diff(got[0], got[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", field, diff)
				}
			}
		})
	}
}

func TestWhatANodeCannotHaveCountsAsNothing(t *testing.T) {
	var log bytes.Buffer
	i := byHand(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, i.nodes.Add(aNode("good", "cpu", "4", "memory", "8Gi")))
	hostile := aNode("hostile", "cpu", "9223372036854775807", "memory", "-8Gi", "nvidia.com/gpu", "2", "pods", "1e40")
	must(t, i.nodes.Add(hostile))
	bloated := aNode("bloated", "cpu", "1")
	for n := range 1000 {
		bloated.Status.Capacity[corev1.ResourceName(fmt.Sprint("example.com/", n))] = one
	}
	must(t, i.nodes.Add(bloated))

	pool := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]
	if diff := cmp.Diff(map[string]string{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"},
		plain(pool.Capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	for _, said := range []string{"node=hostile", "capacity: cpu",
		"allocatable: memory", "node=bloated", "capacity: 1001 resources"} {
		if !strings.Contains(log.String(), said) {
			t.Errorf("the log does not say %q:\n%s", said, log.String())
		}
	}
	if strings.Contains(log.String(), "node=good") {
		t.Errorf("the log complains of a good node:\n%s", log.String())
	}

	log.Reset()
	hostile = hostile.DeepCopy()
	hostile.Labels["touched"] = "yes"
	must(t, i.nodes.Update(hostile))
	if log.Len() > 0 {
		t.Errorf("the same lie was logged again: %s", log.String())
	}
}

// What is taken counts wherever something can be sold, even where the node forgot to say its capacity.
func TestCapacityLeftOutHidesNothingThatIsTaken(t *testing.T) {
	i := byHand(t, Options{})
	n := aNode("n", "cpu", "4")
	n.Status.Capacity = list("cpu", "9e18")
	must(t, i.nodes.Add(n))
	must(t, i.pods.Add(aPod("p", "n", "cpu", "3")))
	pool := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]
	if plain(pool.Allocatable)["cpu"] != "4" || plain(pool.Allocated)["cpu"] != "3" {
		t.Errorf("allocatable %v, allocated %v", plain(pool.Allocatable), plain(pool.Allocated))
	}
}

// Many large nodes saturate, and come back exactly when some go.
func TestSumsOfManyLargeNodesSaturate(t *testing.T) {
	i := byHand(t, Options{})
	for n := range 1500 {
		must(t, i.nodes.Add(aNode(fmt.Sprint(n), "memory", "8Pi")))
	}
	memory := func() string {
		return plain(i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool].Shared)["memory"]
	}
	if got := memory(); got != "1Ei" {
		t.Errorf("got %s", got)
	}
	for n := range 1499 {
		must(t, i.nodes.Delete(aNode(fmt.Sprint(n))))
	}
	if got := memory(); got != "8Pi" {
		t.Errorf("got %s, want the one that is left", got)
	}
}

func TestOnlyWhatCanChangeAMeasurementIsSignalled(t *testing.T) {
	i := byHand(t, Options{})
	n, p := aNode("n", "cpu", "4"), aPod("p", "n", "cpu", "1")
	step := func(what string, want bool, do func() error) {
		t.Helper()
		must(t, do())
		if got := heard(i); got != want {
			t.Errorf("%s: signalled %v, want %v", what, got, want)
		}
	}
	step("a new node", true, func() error { return i.nodes.Add(n) })
	n = n.DeepCopy()
	n.Status.Conditions[0].LastHeartbeatTime = metav1.Time{Time: time.Unix(10, 0)}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"a"}}}
	n.Annotations = map[string]string{"touched": "yes"}
	step("a heartbeat", false, func() error { return i.nodes.Update(n) })
	step("a new pod", true, func() error { return i.pods.Add(p) })
	p = p.DeepCopy()
	p.Status.Message = "still here"
	step("a pod's status", false, func() error { return i.pods.Update(p) })
	step("the same list again", false, func() error { return i.pods.Replace([]any{p}, "2") })
	waiting := aPod("waiting", "", "cpu", "1")
	step("a pod that waits for a node", false, func() error { return i.pods.Add(waiting) })
	step("which goes", false, func() error { return i.pods.Delete(waiting) })
	p = p.DeepCopy()
	p.Status.Phase = corev1.PodSucceeded
	step("a pod that ends", true, func() error { return i.pods.Update(p) })
	n = n.DeepCopy()
	n.Spec.Unschedulable = true
	step("a cordon", true, func() error { return i.nodes.Update(n) })
	step("the end of a node that did not count", false, func() error { return i.nodes.Delete(n) })
	step("two changes", true, func() error { _ = i.nodes.Add(aNode("a")); return i.nodes.Add(aNode("b")) })
	if heard(i) {
		t.Error("two changes were two signals")
	}
}
