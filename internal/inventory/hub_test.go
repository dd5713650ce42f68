package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// A pool of virtual nodes has the selected ones that are Ready, uncordoned and of reservations that let the
// cluster lend on. What they have in common is known of it, and no shape of a node. Other pools have no
// virtual node. Of virtual nodes that no reservation made, a pool has those that it names, up to max.
func TestAPoolOfVirtualNodes(t *testing.T) {
	i := byHand(t, Options{})
	virtual := func(name string, labels map[string]string, change ...func(*corev1.Node)) {
		n := aNode(name, "cpu", "8", "memory", "16Gi", "pods", "110")
		n.Labels = map[string]string{"liqo.io/type": "virtual-node", corev1.LabelArchStable: "amd64"}
		for key, value := range labels {
			n.Labels[key] = value
		}
		n.Spec.Taints = []corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Effect: corev1.TaintEffectNoExecute}}
		for _, c := range change {
			c(n)
		}
		must(t, i.nodes.Add(n))
	}
	lent := func(region, zone string) map[string]string {
		return map[string]string{"lent": "on", corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: zone}
	}
	virtual("milan", lent("it", "a"))
	virtual("rome", lent("it", "b"))
	virtual("other", nil)
	virtual("cordoned", lent("fr", "a"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
	virtual("away", lent("fr", "a"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	virtual("kept", lent("fr", "a"))
	must(t, i.nodes.Add(aNode("own", "cpu", "64")))
	must(t, i.pods.Add(aPod("pod", "milan", "cpu", "1")))
	hub := api.PoolPolicy{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
		Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}
	virtual("by-hand", lent("it", "c"))
	signed := amounts.List{{Resource: "cpu", Value: 8000}, {Resource: "memory", Value: 16 << 30}, {Resource: "pods", Value: 110}}
	made := map[string]amounts.List{"milan": signed, "rome": signed, "kept": nil, "cordoned": signed, "away": signed}
	m := i.Measure([]api.PoolPolicy{hub}, made)
	pool := m.Pools[api.GeneralPool]
	if pool.Shared.Cpu().String() != "16" || pool.Allocated.Cpu().String() != "1" || len(pool.Shapes) > 0 {
		t.Errorf("the pool is %+v", pool)
	}
	if p := m.Properties; p.Unverified || p.Region != "it" || len(p.Zones) > 0 || len(p.Architectures) > 0 || p.Kubernetes != "" {
		t.Errorf("its properties are %+v", p)
	}
	most := api.Resources{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("99Gi")}
	hub.VirtualNodes.ByHand = []api.HandMadeNode{{Node: "by-hand", Max: most}, {Node: "kept", Max: most}, {Node: "other", Max: most}}
	m = i.Measure([]api.PoolPolicy{hub}, made)
	pool = m.Pools[api.GeneralPool]
	if pool.Shared.Cpu().String() != "19" || pool.Shared.Memory().String() != "48Gi" || !m.Properties.Unverified ||
		pool.Unverified.Cpu().String() != "3" || pool.Unverified.Memory().String() != "16Gi" {
		t.Errorf("with one made by hand the pool is %+v, of %+v", pool, m.Properties)
	}
	if own := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool]; own.Shared.Cpu().String() != "64" {
		t.Errorf("a pool of the cluster's own nodes shares %v", own.Shared)
	}
}

// A hub lends no more of a virtual node than both sides signed, even if the provider's Liqo grants more.
func TestAVirtualNodeThatPromisesTooMuch(t *testing.T) {
	i := byHand(t, Options{})
	n := aNode("milan", "cpu", "100k", "memory", "1Gi", "example.com/gpu", "8")
	n.Labels = map[string]string{"liqo.io/type": "virtual-node", "lent": "on"}
	must(t, i.nodes.Add(n))
	hub := api.PoolPolicy{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
		Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}
	signed := amounts.List{{Resource: "cpu", Value: 1000}, {Resource: "memory", Value: 2 << 30}}
	pool := i.Measure([]api.PoolPolicy{hub}, map[string]amounts.List{"milan": signed}).Pools[api.GeneralPool]
	gpus := pool.Shared["example.com/gpu"]
	if pool.Shared.Cpu().String() != "1" || pool.Shared.Memory().String() != "1Gi" || !gpus.IsZero() ||
		pool.Allocatable.Cpu().String() != "1" || pool.Capacity.Cpu().String() != "1" {
		t.Errorf("the hub shares %v of %+v", pool.Shared, pool)
	}
}
