// Package vnp plans the virtual nodes of a VirtualNodePool. It has no I/O and no clock of its own. Start at
// [Planner.Plan]: from the pods of the pool's namespaces, its providers and what the broker says
// that fits, it returns the next steps. A planner remembers only what makes it patient.
package vnp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	corehelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Reasons for which a Pending pod does not count.
const (
	NotYet     = "NotYet"
	Refused    = "Refused"
	NotAllowed = "NotAllowed"
	Affinity   = "Affinity"
	Spread     = "Spread"
	TooLarge   = "TooLarge"
	DidNotHelp = "DidNotHelp"
	NotPlaced  = "NotPlaced"
	Nominated  = "Nominated"
)

// Shape is what pods request, and how many of them there are.
type Shape struct {
	Requests amounts.List
	Count    int64
}

// pod is a Pending pod that may count.
type pod struct {
	*corev1.Pod
	requests amounts.List
	shape    string // the same for pods that request the same
}

func (r *planning) newPod(from *corev1.Pod, requests amounts.List) pod {
	return pod{from, requests, fmt.Sprint(requests)}
}

// countPods counts what the pods on each node request, and sorts the Pending ones into those that
// count and those that do not.
func (r *planning) countPods() {
	own := map[string]bool{}
	for _, provider := range r.providers {
		own[provider.Node] = provider.Node != ""
	}
	for _, provider := range r.providers {
		if len(provider.Used) > 0 {
			r.Used[provider.Node] = provider.Used.Only(r.max)
		}
	}
	seen := map[string]amounts.List{} // by node, of the pool's namespaces
	failed := map[types.UID]mark{}    // of the pods that are still there
	for _, pod := range r.o.Pods {
		if pod.DeletionTimestamp != nil || kubeobject.HasEnded(pod.Status.Phase) {
			continue
		}
		requests, node := r.requests(pod), pod.Spec.NodeName
		if node != "" {
			if own[node] {
				seen[node] = seen[node].Plus(requests)
				r.Used[node] = r.Used[node].Max(seen[node])
				if kubeobject.ControllerKind(pod) == "DaemonSet" { // it ends with the node, and moves nowhere
					r.daemons[node] = r.daemons[node].Plus(requests)
				} else {
					r.on[node] = append(r.on[node], r.newPod(pod, requests))
				}
			}
			continue
		}
		since, waits := unschedulable(pod)
		if !waits {
			continue
		}
		reason, message := r.check(pod, since)
		if mark, marked := r.failed[pod.UID]; marked {
			failed[pod.UID] = mark
		}
		if reason == "" {
			r.count = append(r.count, r.newPod(pod, requests))
			continue
		}
		r.noteUncounted(pod, reason, message)
	}
	r.failed = failed
	r.sortBySize(r.count)
}

// noteUncounted counts a pod among those that do not count.
func (r *planning) noteUncounted(pod *corev1.Pod, reason, message string) {
	i := slices.IndexFunc(r.Not, func(u api.UncountedPods) bool { return u.Reason == reason })
	if i < 0 {
		i, r.Not = len(r.Not), append(r.Not, api.UncountedPods{Reason: reason,
			Example: pod.Namespace + "/" + pod.Name, Message: message})
	}
	r.Not[i].Count++
}

// sortBySize sorts pods, the largest first.
func (p *Planner) sortBySize(pods []pod) {
	slices.SortStableFunc(pods, func(a, b pod) int {
		return cmp.Or(p.compareSize(b.requests, a.requests), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
}

// requests returns what a pod requests of the resources of max, and its place if max names pods.
func (p *Planner) requests(pod *corev1.Pod) amounts.List {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	list[corev1.ResourcePods] = amounts.Amount{Resource: "pods", Value: 1}.Quantity()
	all, err := amounts.ParseRequest("resources", list)
	if err != nil { // an amount that no provider has: it stays too large
		return p.max.Plus(p.max)
	}
	requested := all.Only(p.max)
	if slices.ContainsFunc(requested, func(a amounts.Amount) bool { return a.Value > 0 && a.Resource != "pods" }) {
		return requested
	}
	return requested.Plus(slot.Only(p.max))
}

// slot is what a pod without requests counts as: with so much, Kubernetes' scheduler scores its nodes.
var slot = amounts.List{{Resource: "cpu", Value: 100}, {Resource: "memory", Value: 200 << 20}}

// compareSize compares amounts by their largest part of max.
func (p *Planner) compareSize(a, b amounts.List) int {
	part := func(of amounts.List) (most float64) {
		for _, m := range p.max {
			most = max(most, float64(of.Of(m.Resource))/float64(max(m.Value, 1)))
		}
		return most
	}
	return cmp.Compare(part(a), part(b))
}

// unschedulable returns since when the scheduler finds no node for a pod.
func unschedulable(p *corev1.Pod) (since time.Time, waits bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// check returns why a pod does not count, empty if it may count.
func (r *planning) check(pod *corev1.Pod, since time.Time) (reason, message string) {
	if at := since.Add(r.pendingFor); r.o.Now.Before(at) {
		r.LookAgain(at)
		return NotYet, fmt.Sprintf("it counts once it is Unschedulable for %s", r.pendingFor)
	}
	if node := pod.Status.NominatedNodeName; r.o.Nodes[node] {
		return Nominated, "the scheduler makes room for it at node " + node
	}
	if r.o.Refuses != nil {
		if why := r.o.Refuses(pod); why != "" {
			return Refused, why
		}
	}
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil &&
		len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 || a.PodAntiAffinity != nil &&
		len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0) {
		return Affinity, "it has a required affinity or anti-affinity with other pods"
	}
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}) {
		return Spread, "it has a topology spread constraint with DoNotSchedule"
	}
	if node := r.volumesAt(pod); node != "" {
		switch i := slices.IndexFunc(r.providers, func(p Provider) bool { return p.Node == node }); {
		case i < 0:
			return NotAllowed, "its volumes are at node " + node + ", which is not of the pool"
		case !r.providers[i].stays():
			return NotAllowed, "its volumes are at node " + node + ", which leaves the pool"
		}
	}
	if !slices.ContainsFunc(r.nodes(), func(n *corev1.Node) bool { return allowed(pod, n) }) {
		return NotAllowed, "its node selector, affinity or tolerations do not allow the virtual nodes; " +
			"pods that were made before their namespace was offloaded must be made again"
	}
	most := r.max
	if r.spread > 1 {
		most = part(r.max, 1, r.spread)
	}
	for _, need := range resourcesOf(pod) {
		if need.Resource != "pods" && !r.max.Has(need.Resource) {
			return TooLarge, fmt.Sprintf("it requests %s, which max does not name", need.Resource)
		}
	}
	if !most.Fits(r.requests(pod)) {
		return TooLarge, "it requests more than one provider may give (max, spread)"
	}
	return "", ""
}

func resourcesOf(pod *corev1.Pod) amounts.List {
	all, _ := amounts.ParseRequest("resources", resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	return all
}

// architectures are those that a new provider may have.
var architectures = []string{"amd64", "arm64"}

// nodes returns the virtual nodes of the pool, and those that a new provider might have.
func (r *planning) nodes() (nodes []*corev1.Node) {
	for _, a := range architectures {
		nodes = append(nodes, r.node(r.newAt(a)))
	}
	for i := range r.providers {
		nodes = append(nodes, r.node(&r.providers[i]))
	}
	return nodes
}

// newAt returns a new provider of an architecture, that of the observation's node if it is empty.
func (r *planning) newAt(architecture string) *Provider {
	labels := r.o.Node.Labels
	if architecture != "" {
		labels = maps.Clone(labels)
		labels[corev1.LabelArchStable] = architecture
	}
	return &Provider{Labels: labels}
}

// node returns the virtual node of a provider.
func (r *planning) node(of *Provider) *corev1.Node {
	node := *r.o.Node
	if of.Labels != nil {
		node.Labels = of.Labels
	}
	return &node
}

// allowed reports whether node selector, node affinity and tolerations of a pod allow a node.
func allowed(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	_, untolerated := corehelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	return !untolerated
}
