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
	is    bool // false: it counts again
	node  string
	size  amounts.List // of the node, when the pod was marked
	until time.Time
	next  time.Duration
}

// dropUnhelped takes the pods out that stay Unschedulable beside a node that had room for them for
// long enough: growth does not help them. They count again once the pool has another virtual node, once other
// pods fill the node, and in time once no node has room for them.
func (r *round) dropUnhelped() {
	room := r.findRoom()
	r.count = slices.DeleteFunc(r.count, func(one pod) bool {
		best := r.longestRoom(room, one)
		known := r.failed[one.UID]
		if known.is && best == "" && r.mayHelp(known) {
			known.is = false
			r.failed[one.UID] = known
		}
		if has, ok := room[best]; ok { // it is room for no other pod, also if it did not help
			room[best] = roomSince{has.at, has.free.Minus(one.requests)}
		}
		if !known.is && (best == "" || !r.isBesideRoom(one, room[best].at)) {
			return false
		}
		if !known.is {
			next := min(max(2*known.next, firstRetry), lastRetry)
			r.failed[one.UID] = mark{true, best, r.sizeOf(best), r.o.Now.Add(next), next}
		}
		r.noteUncounted(one.Pod, DidNotHelp, unhelped)
		return true
	})
	slices.SortFunc(r.Not, func(a, b api.UncountedPods) int { return cmp.Compare(a.Reason, b.Reason) })
}

// findRoom returns what is free on each node that is Ready, and since when.
func (r *round) findRoom() map[string]roomSince {
	room := map[string]roomSince{}
	for _, one := range r.providers {
		if one.State != Ready {
			continue
		}
		free, was := one.size().Minus(r.Used[one.Node]), r.room[one.Node]
		if was.at.IsZero() {
			for id, known := range r.failed { // it may help them
				known.is = false
				r.failed[id] = known
			}
		}
		if was.at.IsZero() || len(free.Beyond(was.free)) > 0 {
			was.at = r.o.Now
		}
		room[one.Node] = roomSince{was.at, free}
	}
	r.room = maps.Clone(room)
	return room
}

// longestRoom returns the node that has had room for a pod for the longest time, empty if none has.
func (r *round) longestRoom(room map[string]roomSince, one pod) (best string) {
	for i := range r.providers {
		provider := &r.providers[i]
		has, ok := room[provider.Node]
		if ok && has.free.Fits(one.requests) && (best == "" || has.at.Before(room[best].at)) &&
			r.mayRun(one.Pod, provider) {
			best = provider.Node
		}
	}
	return best
}

// mayHelp reports whether growth may help a pod beside which no node has room now: other pods filled the node, or
// what kept the pod had time to pass. A node that became smaller, or left, did so because the pod did not count.
func (r *round) mayHelp(known mark) bool {
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
func (r *round) sizeOf(node string) amounts.List {
	for i := range r.providers {
		if one := &r.providers[i]; one.Node == node && one.State == Ready {
			return one.size()
		}
	}
	return nil
}

// isBesideRoom reports whether a pod is Unschedulable for long enough beside room that is there since a time.
func (r *round) isBesideRoom(one pod, at time.Time) bool {
	since, _ := unschedulable(one.Pod)
	if since.Before(at) {
		since = at
	}
	if at := since.Add(helpsWithin); r.o.Now.Before(at) {
		r.LookAgain(at)
		return false
	}
	return true
}
