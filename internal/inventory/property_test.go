package inventory

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
)

// After any events and lists in any order, the measurement is the same as a count of all objects from
// scratch.
func TestMeasureEqualsACountFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owner := func(pod *metav1.ObjectMeta) string { return pod.Labels["owner"] }
		consumer := func(owner string) string { return map[string]string{"a": "rome", "b": "rome", "c": "milan"}[owner] }
		i := byHand(t, Options{Owner: owner, Consumer: consumer})
		world := world{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
		pools := []api.PoolPolicy{
			{Name: "ssd", NodeSelector: map[string]string{"disk": "ssd"}},
			{Name: "all", TolerateTaints: []string{"gpu"}},
		}
		t.Repeat(map[string]func(*rapid.T){
			"node":      func(t *rapid.T) { set(t, i.nodes, world.nodes, drawNode(t)) },
			"pod":       func(t *rapid.T) { set(t, i.pods, world.pods, drawPod(t)) },
			"node goes": func(t *rapid.T) { remove(t, i.nodes, world.nodes) },
			"pod goes":  func(t *rapid.T) { remove(t, i.pods, world.pods) },
			"node list": func(t *rapid.T) { relist(t, i.nodes, world.nodes, drawNode) },
			"pod list":  func(t *rapid.T) { relist(t, i.pods, world.pods, drawPod) },
			"": func(t *rapid.T) {
				measured := i.Measure(pools, nil)
				for n, policy := range pools {
					got := numbers(measured.Pools[policy.Name])
					if diff := cmp.Diff(world.count(policy, pools[:n], consumer), got); diff != "" {
						t.Fatalf("pool %s (-from scratch +measured):\n%s", policy.Name, diff)
					}
					if diff := cmp.Diff(world.shapes(policy, pools[:n]), shapesOf(measured.Pools[policy.Name])); diff != "" {
						t.Fatalf("shapes of pool %s (-from scratch +measured):\n%s", policy.Name, diff)
					}
				}
				for _, owner := range []string{"a", "b", "c"} {
					sum := api.Resources{}
					for _, used := range i.UsedByNamespace(owner, "") {
						for name, q := range used {
							total := sum[name]
							total.Add(q)
							sum[name] = total
						}
					}
					if used := i.Used(owner); !equality.Semantic.DeepEqual(sum, used) && len(sum)+len(used) > 0 {
						t.Fatalf("%s uses %v, by namespaces %v", owner, used, sum)
					}
				}
				if len(world.pods) == 0 && len(i.usage)+len(i.owners) > 0 {
					t.Fatalf("no pods, but sums are left: %v, %v", i.usage, i.owners)
				}
			},
		})
	})
}

type world struct {
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
}

// selects says whether a node is one that a pool would have.
func selects(policy api.PoolPolicy, n *corev1.Node) bool {
	return !n.Spec.Unschedulable && n.Status.Conditions[0].Status == corev1.ConditionTrue &&
		n.Labels["liqo.io/type"] == "" &&
		(policy.NodeSelector == nil || n.Labels["disk"] == "ssd") &&
		(len(n.Spec.Taints) == 0 || slices.Contains(policy.TolerateTaints, n.Spec.Taints[0].Key))
}

// count is the naive way: every pod looks for its node, in numbers without end. What one of the
// first pools selects is not the policy's.
func (w world) count(policy api.PoolPolicy, first []api.PoolPolicy, consumer func(string) string) map[string]string {
	sums := map[string]*big.Int{}
	add := func(what string, name corev1.ResourceName, n int64) {
		key := what + " " + string(name)
		if sums[key] == nil {
			sums[key] = new(big.Int)
		}
		sums[key].Add(sums[key], big.NewInt(n))
	}
	has := map[corev1.ResourceName]bool{}
	counts := map[string]bool{}
	for name, n := range w.nodes {
		taken := slices.ContainsFunc(first, func(p api.PoolPolicy) bool { return selects(p, n) })
		if selects(policy, n) && !taken {
			counts[name] = true
			for resource, q := range n.Status.Capacity {
				if n := q.Value(); n <= 1<<53 {
					has[resource] = true
					add("capacity", resource, n)
				}
			}
		}
	}
	for _, p := range w.pods {
		if !counts[p.Spec.NodeName] || p.Status.Phase != corev1.PodRunning {
			continue
		}
		what := "allocated"
		if c := consumer(p.Labels["owner"]); c != "" {
			what = c
		}
		add(what, corev1.ResourcePods, 1)
		requests := map[corev1.ResourceName]int64{}
		for _, container := range p.Spec.Containers {
			for resource, q := range container.Resources.Requests {
				requests[resource] += q.Value()
			}
		}
		for resource, n := range requests {
			if has[resource] {
				add(what, resource, min(n, 1<<53))
			}
		}
	}
	numbers := map[string]string{}
	for key, sum := range sums {
		if sum.Sign() > 0 {
			numbers[key] = sum.String()
		}
	}
	return numbers
}

// shapes counts the nodes by their free amounts the naive way: with big numbers, rounded to five binary
// digits.
func (w world) shapes(policy api.PoolPolicy, first []api.PoolPolicy) map[string]int64 {
	shapes := map[string]int64{}
	for name, n := range w.nodes {
		if !selects(policy, n) || slices.ContainsFunc(first, func(p api.PoolPolicy) bool { return selects(p, n) }) {
			continue
		}
		free := map[string]*big.Int{}
		for resource, q := range n.Status.Allocatable {
			if v := q.Value(); v <= 1<<53 {
				free[string(resource)] = big.NewInt(v)
			}
		}
		for _, p := range w.pods {
			if p.Spec.NodeName != name || p.Status.Phase != corev1.PodRunning {
				continue
			}
			requests := map[string]int64{"pods": 1}
			for _, container := range p.Spec.Containers {
				for resource, q := range container.Resources.Requests {
					requests[string(resource)] += q.Value()
				}
			}
			for resource, v := range requests {
				if free[resource] != nil {
					free[resource].Sub(free[resource], big.NewInt(min(v, 1<<53)))
				}
			}
		}
		if free["pods"].Sign() <= 0 {
			continue
		}
		free["pods"].SetInt64(1)
		var text []string
		for resource, v := range free {
			for drop := v.BitLen() - 5; drop > 0; drop = 0 {
				v.Lsh(v.Rsh(v, uint(drop)), uint(drop))
			}
			if v.Sign() > 0 {
				text = append(text, resource+" "+v.String())
			}
		}
		slices.Sort(text)
		shapes[strings.Join(text, ", ")]++
	}
	return shapes
}

// shapesOf is a pool's as world gives them.
func shapesOf(pool api.Pool) map[string]int64 {
	shapes := map[string]int64{}
	for _, s := range pool.Shapes {
		var text []string
		for name, q := range s.Free {
			text = append(text, fmt.Sprintf("%s %d", name, q.Value()))
		}
		slices.Sort(text)
		shapes[strings.Join(text, ", ")] += s.Nodes
	}
	return shapes
}

// numbers is a pool as count gives it.
func numbers(pool api.Pool) map[string]string {
	numbers := map[string]string{}
	note := func(what string, resources api.Resources) {
		for name, q := range resources {
			numbers[what+" "+string(name)] = fmt.Sprint(q.Value())
		}
	}
	note("capacity", pool.Capacity)
	note("allocated", pool.Allocated)
	for consumer, account := range pool.Accounts {
		note(consumer, account.Used)
	}
	return numbers
}

func drawNode(t *rapid.T) *corev1.Node {
	name := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
	n := aNode(name, "pods", "110", "memory", rapid.SampledFrom([]string{"1", "10", "9Pi", "8Ei"}).Draw(t, "memory"))
	if rapid.Bool().Draw(t, "gpu") {
		n.Status.Capacity["gpu"], n.Status.Allocatable["gpu"] = one, one
	}
	switch rapid.SampledFrom([]string{"", "", "cordoned", "not ready", "virtual", "tainted", "ssd"}).Draw(t, "state") {
	case "cordoned":
		n.Spec.Unschedulable = true
	case "not ready":
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	case "virtual":
		n.Labels["liqo.io/type"] = "virtual-node"
	case "tainted":
		key := rapid.SampledFrom([]string{"gpu", "other"}).Draw(t, "taint")
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	case "ssd":
		n.Labels["disk"] = "ssd"
	}
	return n
}

func drawPod(t *rapid.T) *corev1.Pod {
	p := aPod(fmt.Sprint("p", rapid.IntRange(1, 8).Draw(t, "pod")),
		rapid.SampledFrom([]string{"", "n1", "n2", "n3", "n4"}).Draw(t, "on"))
	p.Labels = map[string]string{"owner": rapid.SampledFrom([]string{"", "a", "b", "c", "stranger"}).Draw(t, "owner")}
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning,
		corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	p.Spec.Containers = nil
	for n := range rapid.IntRange(1, 2).Draw(t, "containers") {
		requests := rapid.SampledFrom([][]string{nil, {"memory", "0"},
			{"memory", "3", "gpu", "1"}, {"memory", "3Ei"}}).Draw(t, "requests")
		p.Spec.Containers = append(p.Spec.Containers, aContainer(fmt.Sprint(n), requests...))
	}
	return p
}

type object interface {
	metav1.Object
	comparable
}

func set[T any, O object](t *rapid.T, store *kept[T], all map[string]O, o O) {
	do := store.Add
	if _, known := all[o.GetName()]; known {
		do = store.Update
	}
	all[o.GetName()] = o
	must(t, do(o))
}

func remove[T any, O object](t *rapid.T, store *kept[T], all map[string]O) {
	if len(all) == 0 {
		t.Skip("nothing there")
	}
	o := all[rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "goes")]
	delete(all, o.GetName())
	must(t, store.Delete(o))
}

// relist is what follows a lost watch: some objects are gone, one is new, and they come as client-go
// hands them over, reduced or as they are.
func relist[T any, O object](t *rapid.T, store *kept[T], all map[string]O, draw func(*rapid.T) O) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rapid.Bool().Draw(t, "goes") {
			delete(all, name)
		}
	}
	o := draw(t)
	all[o.GetName()] = o
	collected := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	if rapid.Bool().Draw(t, "reduced") {
		collected = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.WithTransformer(store.Transformer()))
	}
	for _, o := range all {
		must(t, collected.Add(o))
	}
	must(t, store.Replace(collected.List(), "2"))
}
