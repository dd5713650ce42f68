package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
)

// place is a node that a pod was given, since when, and whether the pod has it by itself: before, a placeholder does.
type place struct {
	node  string
	since time.Time
	own   bool
}

// nominate has the scheduler keep room for a pod on a node.
func (p *placeholders) nominate(ctx context.Context, pod *corev1.Pod, node string) error {
	next := pod.DeepCopy()
	next.Status.NominatedNodeName = node
	err := p.Status().Patch(ctx, next, client.MergeFrom(pod))
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // it is gone, or has a node
		return errMoves
	}
	return err
}

// unschedulable is what the scheduler says of a pod for which it found no room.
func unschedulable(c corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// place brings a pod that waits to a node on which there is room, or would be without placeholders of its account. It says
// whether the pod takes its own room already: until then a placeholder has it.
func (p *placeholders) place(ctx context.Context, a *held, pod *corev1.Pod, rooms []inventory.Room, taking map[string]market.Amounts) (bool, error) {
	last, known := p.given[pod.UID]
	fresh := known && time.Since(last.since) < placeLasts
	if i := slices.IndexFunc(a.have, func(h *corev1.Pod) bool { return h.Labels[standsFor] == string(pod.UID) }); i >= 0 {
		return p.standsIn(ctx, a, pod, a.have[i], fresh)
	}
	if fresh && last.own && pod.Status.NominatedNodeName == "" { // it was tried too early
		return true, p.nominate(ctx, pod, last.node)
	}
	if fresh || p.busy {
		return fresh && last.own, nil
	}
	free := slices.DeleteFunc(slices.Clone(a.have), func(h *corev1.Pod) bool {
		_, waits := p.given[types.UID(h.Labels[standsFor])]
		return waits
	})
	node, give := choose(pod, requestsOf(pod), free, rooms, taking, last.node)
	if node == "" {
		p.given[pod.UID] = place{"", time.Now().Add(notYet - placeLasts), false} // what is held for it stays so until there is a place
		return false, nil
	}
	p.given[pod.UID], p.busy = place{node, time.Now(), false}, true
	return false, p.standIn(ctx, a, pod, node, give)
}

// standsIn lets a pod take the place that a placeholder has for it.
func (p *placeholders) standsIn(ctx context.Context, a *held, pod, stand *corev1.Pod, fresh bool) (bool, error) {
	node, busy := stand.Spec.NodeName, p.busy
	p.busy = true
	switch {
	case node == "" && fresh, node != "" && busy:
		return false, nil
	case node == "":
		return false, p.remove(ctx, a, stand) // in vain
	case time.Since(p.went) < quiet:
		return false, errMoves
	}
	// The scheduler hears of both in this order, and tries nobody between them while nothing else goes.
	if err := p.nominate(ctx, pod, node); err != nil {
		return false, err
	}
	p.given[pod.UID] = place{node, time.Now(), true}
	return true, p.remove(ctx, a, stand)
}

// standIn puts a placeholder of just the size of a pod in the place of others.
func (p *placeholders) standIn(ctx context.Context, a *held, pod *corev1.Pod, node string, give []*corev1.Pod) error {
	needs, rest := requestsOf(pod), market.Amounts(nil)
	for _, hold := range give {
		rest = rest.Plus(requestsOf(hold))
	}
	if err := p.create(ctx, a, needs, node, pod.UID); err != nil {
		return err
	}
	if err := p.create(ctx, a, rest.Beyond(needs), node, ""); err != nil {
		return err
	}
	for _, hold := range give {
		if err := p.remove(ctx, a, hold); err != nil {
			return err
		}
	}
	return errMoves // what was read is no longer so: the rest at the next look
}

// choose finds the node on which the fewest placeholders must go for a pod, and which. A node that was given in vain comes last.
func choose(pod *corev1.Pod, needs market.Amounts, have []*corev1.Pod, rooms []inventory.Room, taking map[string]market.Amounts, vain string) (node string, give []*corev1.Pod) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	slices.SortFunc(rooms, func(x, y inventory.Room) int { return cmp.Compare(x.Node, y.Node) })
	if i := slices.IndexFunc(rooms, func(r inventory.Room) bool { return r.Node == vain }); i >= 0 {
		rooms = append(slices.Delete(slices.Clone(rooms), i, i+1), rooms[i])
	}
	for _, room := range rooms {
		if ok, err := affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: room.Node, Labels: room.Labels}}); err != nil || !ok || room.Node == vain && node != "" {
			continue
		}
		lacks := needs.Plus(slot).Beyond(amountsOf(room.Allocatable).Minus(amountsOf(room.Used)).Minus(taking[room.Node]))
		var gives []*corev1.Pod
		for _, hold := range have {
			if hold.Spec.NodeName == room.Node && slices.ContainsFunc(requestsOf(hold).Plus(slot), func(x market.Amount) bool { return lacks.Of(x.Resource) > 0 }) {
				gives, lacks = append(gives, hold), lacks.Beyond(requestsOf(hold).Plus(slot))
			}
		}
		if len(lacks) == 0 && (node == "" || len(gives) < len(give)) {
			node, give = room.Node, gives
		}
	}
	return node, give
}

// slot is what each pod takes of a node besides what it requests.
var slot = market.Amounts{{Resource: "pods", Value: 1}}
