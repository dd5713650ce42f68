package inventory

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/bourse-dev/bourse/internal/market"
)

// countingPods leaves out, at the server already, what podOf would leave out: it is neither sent nor
// decoded, and a pod that ends arrives as deleted.
const countingPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// pod is what is kept of a pod that takes something from a node.
type pod struct {
	node, owner unique.Handle[string]
	requests    market.Amounts
}

// podOf keeps pods that are bound and not ended. A pod that waits for a node takes nothing yet,
// and may never, or end up on another cluster's; one that ended holds nothing any more; one that
// is being deleted still runs.
func (i *Inventory) podOf(obj any) (pod, bool) {
	p := obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return pod{}, false
	}
	// What the status says counts too: while a pod is resized in place it holds the larger of both.
	// Where the cluster does not know of resizing, the status says nothing.
	list := resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	list[corev1.ResourcePods] = *quantity.NewQuantity(1, quantity.DecimalSI)
	requests, _ := amountsOf(list)
	return pod{
		node:     unique.Make(p.Spec.NodeName),
		owner:    unique.Make(i.options.Owner(&p.ObjectMeta)),
		requests: requests,
	}, true
}

// podMoved keeps the sums current. It costs what the pod requests.
func (i *Inventory) podMoved(key string, from, to *pod) {
	if from != nil {
		node := from.node.Value()
		i.usage[node].drop(from)
		if len(i.usage[node]) == 0 {
			delete(i.usage, node)
		}
		i.owners.drop(from)
	}
	if to != nil {
		node := to.node.Value()
		if i.usage[node] == nil {
			i.usage[node] = byOwner{}
		}
		i.usage[node].of(to.owner.Value()).add(to.requests)
		i.owners.of(to.owner.Value()).add(to.requests)
		if slices.ContainsFunc(to.requests, func(a market.Amount) bool { return a.Value >= absurd }) {
			i.options.Logger.Warn("a pod requests more than any node has; it counts as the most there is",
				"pod", key, "node", node)
		}
	}
	if from != nil && from.owner.Value() != "" || to != nil && to.owner.Value() != "" {
		nudge(i.useChanged)
	}
}

// drop takes out a pod.
func (b byOwner) drop(p *pod) {
	owner := p.owner.Value()
	// Each pod has its "pods" in there, so empty totals are no pods.
	if b.of(owner).take(p.requests); len(b[owner]) == 0 {
		delete(b, owner)
	}
}
