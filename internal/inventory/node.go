package inventory

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// mostResources is how many resources a node is believed to have. Each would travel with every
// advertisement of the cluster.
const mostResources = 128

// node is what is kept of a node that is Ready, uncordoned and real. Others are not kept at all: the
// event that makes them count brings everything.
type node struct {
	labels                map[string]string
	taints                []string // keys of those that keep pods away
	capacity, allocatable market.Amounts
	disbelieved           []string // what it says that cannot be true
}

func nodeOf(obj any) (node, bool) {
	n := obj.(*corev1.Node)
	if !ready(n) || n.Spec.Unschedulable || virtual(n) {
		return node{}, false
	}
	kept := node{labels: n.Labels}
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute {
			kept.taints = append(kept.taints, taint.Key)
		}
	}
	kept.capacity = kept.believe("capacity", n.Status.Capacity)
	kept.allocatable = kept.believe("allocatable", n.Status.Allocatable)
	return kept, true
}

// believe is what list says, except for what cannot be true: that counts as nothing, because what is
// not there must never be sold.
func (n *node) believe(field string, list corev1.ResourceList) market.Amounts {
	if len(list) > mostResources {
		n.disbelieved = append(n.disbelieved, fmt.Sprintf("%s: %d resources", field, len(list)))
		return nil
	}
	amounts, untrue := amountsOf(list)
	for _, name := range untrue {
		n.disbelieved = append(n.disbelieved, field+": "+name)
	}
	return slices.DeleteFunc(amounts, func(a market.Amount) bool { return slices.Contains(untrue, a.Resource) })
}

// ready is the condition itself. The taints of the not-ready family follow it, late; so a policy that
// tolerates them still gets no node that is not Ready.
func ready(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// virtual says that what the node has is another cluster's, or a cloud's: Liqo's virtual nodes
// carry both labels, other virtual kubelets the second.
func virtual(n *corev1.Node) bool {
	return n.Labels["liqo.io/type"] == "virtual-node" || n.Labels["type"] == "virtual-kubelet"
}

// counts says whether a node is of a pool: selected, and without a taint that the pool does not
// tolerate.
func (n node) counts(pool api.PoolPolicy) bool {
	if !labels.SelectorFromSet(pool.NodeSelector).Matches(labels.Set(n.labels)) {
		return false
	}
	return !slices.ContainsFunc(n.taints, func(key string) bool { return !slices.Contains(pool.TolerateTaints, key) })
}

// nodeMoved tells the admin once what is not believed.
func (i *Inventory) nodeMoved(name string, from, to *node) {
	if to == nil || len(to.disbelieved) == 0 || from != nil && slices.Equal(from.disbelieved, to.disbelieved) {
		return
	}
	i.options.Logger.Warn("a node's status says what cannot be true; it counts as nothing",
		"node", name, "fields", to.disbelieved)
}
