package vnp

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

const (
	// helpsWithin is how long a pod may stay Unschedulable beside a node that has room for it.
	helpsWithin = time.Minute
	// A pod that growth did not help counts again after firstRetry, and each time after twice as long, at most
	// lastRetry: what keeps it may have passed.
	firstRetry, lastRetry = 30 * time.Minute, 24 * time.Hour
)

// unhelped is why a pod does not count that growth did not help.
const unhelped = "it stays Unschedulable beside a virtual node that has room for it"

// mark is that of a pod that growth did not help.
type mark struct {
	inForce bool // false: it counts again
	node    string
	size    amounts.List // of the node, when the pod was marked
	until   time.Time
	next    time.Duration
}

// dropUnhelped takes the pods out that stay Unschedulable beside a node that had room for them for
// long enough: growth does not help them. They count again once the pool has another virtual node, once other
// pods fill the node, and in time once no node has room for them.
func (r *planning) dropUnhelped() {
	room := r.findRoom()
	r.count = slices.DeleteFunc(r.count, func(pod pod) bool {
		best := r.longestRoom(room, pod)
		known := r.failed[pod.UID]
		if known.inForce && best == "" && r.mayHelp(known) {
			known.inForce = false
			r.failed[pod.UID] = known
		}
		if has, ok := room[best]; ok { // it is room for no other pod, also if it did not help
			room[best] = roomSince{has.at, has.free.Minus(pod.requests)}
		}
		if !known.inForce && (best == "" || !r.isBesideRoom(pod, room[best].at)) {
			return false
		}
		if !known.inForce {
			next := min(max(2*known.next, firstRetry), lastRetry)
			r.failed[pod.UID] = mark{true, best, r.sizeOf(best), r.o.Now.Add(next), next}
		}
		r.noteUncounted(pod.Pod, DidNotHelp, unhelped)
		return true
	})
	slices.SortFunc(r.Not, func(a, b api.UncountedPods) int { return cmp.Compare(a.Reason, b.Reason) })
}

// findRoom returns what is free on each node that is Ready, and since when.
func (r *planning) findRoom() map[string]roomSince {
	room := map[string]roomSince{}
	for _, provider := range r.providers {
		if provider.State != Ready {
			continue
		}
		free, was := provider.size().Minus(r.Used[provider.Node]), r.room[provider.Node]
		if was.at.IsZero() {
			for id, known := range r.failed { // it may help them
				known.inForce = false
				r.failed[id] = known
			}
		}
		if was.at.IsZero() || len(free.Beyond(was.free)) > 0 {
			was.at = r.o.Now
		}
		room[provider.Node] = roomSince{was.at, free}
	}
	r.room = maps.Clone(room)
	return room
}

// longestRoom returns the node that has had room for a pod for the longest time, empty if none has.
func (r *planning) longestRoom(room map[string]roomSince, pod pod) (best string) {
	for i := range r.providers {
		provider := &r.providers[i]
		has, ok := room[provider.Node]
		if ok && has.free.Fits(pod.requests) && (best == "" || has.at.Before(room[best].at)) &&
			r.mayRun(pod.Pod, provider) {
			best = provider.Node
		}
	}
	return best
}

// mayHelp reports whether growth may help a pod beside which no node has room now: other pods filled the node, or
// what kept the pod had time to pass. A node that became smaller, or left, did so because the pod did not count.
func (r *planning) mayHelp(known mark) bool {
	if r.sizeOf(known.node).Fits(known.size) {
		return true
	}
	if r.o.Now.Before(known.until) {
		r.LookAgain(known.until)
		return false
	}
	return true
}

// sizeOf returns the size of a virtual node that is Ready, nil if there is none.
func (r *planning) sizeOf(node string) amounts.List {
	for i := range r.providers {
		if provider := &r.providers[i]; provider.Node == node && provider.State == Ready {
			return provider.size()
		}
	}
	return nil
}

// isBesideRoom reports whether a pod is Unschedulable for long enough beside room that is there since a time.
func (r *planning) isBesideRoom(pod pod, at time.Time) bool {
	since, _ := unschedulable(pod.Pod)
	if since.Before(at) {
		since = at
	}
	if at := since.Add(helpsWithin); r.o.Now.Before(at) {
		r.LookAgain(at)
		return false
	}
	return true
}
