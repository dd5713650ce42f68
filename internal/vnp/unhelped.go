package vnp

import (
	"maps"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// helpsWithin is how long a pod may stay Unschedulable beside a node that has room for it.
const helpsWithin = time.Minute

// unhelped is why a pod does not count that growth did not help.
const unhelped = "it stays Unschedulable beside a virtual node that has room for it"

// dropUnhelped takes the pods out that stay Unschedulable beside a node that had room for them for
// long enough: growth does not help them. They count again once the pool has another virtual node.
func (r *round) dropUnhelped() {
	room := map[string]roomSince{}
	for _, one := range r.providers {
		if one.State != Ready {
			continue
		}
		free, was := one.size().Minus(r.Used[one.Node]), r.room[one.Node]
		if was.at.IsZero() {
			clear(r.failed)
		}
		if was.at.IsZero() || len(free.Beyond(was.free)) > 0 {
			was.at = r.o.Now
		}
		room[one.Node] = roomSince{was.at, free}
	}
	r.room = maps.Clone(room)
	all := slices.Concat(r.unhelped, r.count)
	r.sortBySize(all)
	r.count = slices.DeleteFunc(all, func(one pod) bool {
		best := "" // the node that has had room for it for the longest time
		for _, provider := range r.providers {
			has, ok := room[provider.Node]
			if ok && has.free.Fits(one.requests) && r.mayRun(one.Pod, &provider) &&
				(best == "" || has.at.Before(room[best].at)) {
				best = provider.Node
			}
		}
		if has, ok := room[best]; ok { // it is room for no other pod, also if it did not help
			room[best] = roomSince{has.at, has.free.Minus(one.requests)}
		}
		if known := isIn(r.unhelped, one); known || best == "" {
			return known
		}
		since, _ := unschedulable(one.Pod)
		if at := room[best].at; since.Before(at) {
			since = at
		}
		if at := since.Add(helpsWithin); r.o.Now.Before(at) {
			r.LookAgain(at)
			return false
		}
		r.failed[one.UID] = true
		i := slices.IndexFunc(r.Not, func(u api.UncountedPods) bool { return u.Reason == DidNotHelp })
		if i < 0 {
			i, r.Not = len(r.Not), append(r.Not, api.UncountedPods{Reason: DidNotHelp,
				Example: one.Namespace + "/" + one.Name, Message: unhelped})
		}
		r.Not[i].Count++
		return true
	})
}
