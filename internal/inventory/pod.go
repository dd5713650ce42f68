package inventory

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// countingPods makes the server leave out the pods that podOf would leave out. They are neither sent nor
// decoded, and a pod that ends appears as deleted.
const countingPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// pod is the kept part of a pod that uses a node.
type pod struct {
	node, owner unique.Handle[string]
	requests    amounts.List
}

// podOf keeps pods that are bound and have not ended. A waiting pod uses nothing yet, and may end up on
// another cluster's node. An ended pod uses nothing any more. A pod that is being deleted still runs.
func (i *Inventory) podOf(obj any) (pod, bool) {
	p := obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || kubeobject.HasEnded(p.Status.Phase) {
		return pod{}, false
	}
	// The status counts too: while a pod is resized in place, it holds the larger of both. A cluster without
	// resizing has no such status.
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

// podMoved keeps the sums current.
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
		if slices.ContainsFunc(to.requests, func(a amounts.Amount) bool { return a.Value >= implausible }) {
			i.options.Logger.Warn("a pod requests more than any node has; it counts as the most there is",
				"pod", key, "node", node)
		}
	}
	sendSignal(i.podsMoved)
	for _, p := range []*pod{from, to} {
		if p != nil && p.owner.Value() != "" {
			i.moved[p.owner.Value()] = true
			sendSignal(i.useChanged)
		}
	}
}

// drop removes a pod.
func (b byOwner) drop(p *pod) {
	owner := p.owner.Value()
	// Each pod counts one of "pods", so empty totals mean no pods.
	if b.of(owner).take(p.requests); len(b[owner]) == 0 {
		delete(b, owner)
	}
}
