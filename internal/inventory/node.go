package inventory

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// mostResources is the largest number of resources of a node. Each would be part of every advertisement of
// the cluster.
const mostResources = 128

// node is the kept part of a Ready, uncordoned node. Others are not kept: the event that makes them count
// contains everything.
type node struct {
	labels                map[string]string
	virtual, byHand       bool     // byHand: virtual, and no reservation made it
	taints                []string // keys of taints that keep pods away
	capacity, allocatable amounts.List
	disbelieved           []string // names of impossible amounts
}

func nodeOf(obj any) (node, bool) {
	n := obj.(*corev1.Node)
	if !ready(n) || n.Spec.Unschedulable {
		return node{}, false
	}
	kept := node{labels: n.Labels, virtual: virtual(n)}
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute {
			kept.taints = append(kept.taints, taint.Key)
		}
	}
	kept.capacity = kept.dropImpossible("capacity", n.Status.Capacity)
	kept.allocatable = kept.dropImpossible("allocatable", n.Status.Allocatable)
	return kept, true
}

// dropImpossible returns the list with impossible amounts as zero, because missing capacity must never be sold.
func (n *node) dropImpossible(field string, list corev1.ResourceList) amounts.List {
	if len(list) > mostResources {
		n.disbelieved = append(n.disbelieved, fmt.Sprintf("%s: %d resources", field, len(list)))
		return nil
	}
	all, untrue := amountsOf(list)
	for _, name := range untrue {
		n.disbelieved = append(n.disbelieved, field+": "+name)
	}
	return slices.DeleteFunc(all, func(a amounts.Amount) bool { return slices.Contains(untrue, a.Resource) })
}

// ready checks the condition itself. The not-ready taints follow it late, so a policy that tolerates them
// still gets only Ready nodes.
func ready(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// virtual reports whether a node represents another cluster or a cloud. Liqo's virtual nodes have both
// labels, other virtual kubelets only the second.
func virtual(n *corev1.Node) bool {
	return n.Labels["liqo.io/type"] == "virtual-node" || n.Labels["type"] == "virtual-kubelet"
}

// counts reports whether a node belongs to a pool: selected, and without a taint that the pool does not
// tolerate. Liqo taints every virtual node, and lets the pods of offloaded namespaces tolerate that. Pods of a
// plain consumer do not run on its own machines, so no other consumer gets what it provides.
func (n node) counts(pool api.PoolPolicy) bool {
	if v := pool.VirtualNodes; v != nil || n.virtual {
		own := func(c api.PlainConsumer) bool { return c.Cluster == n.labels["liqo.io/remote-cluster-id"] }
		return v != nil && n.virtual && len(v.Selector.MatchLabels) > 0 && !slices.ContainsFunc(pool.PlainConsumers, own) &&
			labels.SelectorFromSet(v.Selector.MatchLabels).Matches(labels.Set(n.labels))
	}
	if !labels.SelectorFromSet(pool.NodeSelector).Matches(labels.Set(n.labels)) {
		return false
	}
	return !slices.ContainsFunc(n.taints, func(key string) bool { return !slices.Contains(pool.TolerateTaints, key) })
}

// bound leaves of a virtual node what a hub lends on, and reports whether it does. Other nodes stay as they are.
func (n *node) bound(name string, made map[string]amounts.List, lent *api.VirtualNodes) bool {
	if !n.virtual {
		return true
	}
	most, known := made[name]
	if known {
		n.capacity, n.allocatable = n.capacity.Min(most), n.allocatable.Min(most)
		return most != nil
	}
	i := slices.IndexFunc(lent.ByHand, func(h api.HandMadeNode) bool { return h.Node == name })
	if i < 0 {
		return false
	}
	most, err := amounts.ParseCapacity("max", lent.ByHand[i].Max)
	n.byHand, n.capacity, n.allocatable = true, n.capacity.Min(most), n.allocatable.Min(most)
	return err == nil
}

// nodeMoved logs impossible amounts once.
func (i *Inventory) nodeMoved(name string, from, to *node) {
	if to == nil || len(to.disbelieved) == 0 || from != nil && slices.Equal(from.disbelieved, to.disbelieved) {
		return
	}
	i.options.Logger.Warn("a node's status says what cannot be true; it counts as nothing",
		"node", name, "fields", to.disbelieved)
}
