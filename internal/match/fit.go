package match

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// MaxFits is the largest number of clusters of an answer about what fits, MaxPods that of shapes of pods.
const (
	MaxFits = maxRanked
	MaxPods = 8
)

// Fits returns how much of an ask each cluster can serve by itself: the sum over all clusters that pass every
// other filter, and the best ones, at most most. A cluster counts with the amount that is available and that
// its terms allow, at most with the whole ask, and at least with a pod of the ask. pods are shapes to count.
func (e *Engine) Fits(v *market.View, a Ask, pods []amounts.List, most int, now market.Time) *api.Fits {
	q := e.question(v, a, now)
	q.Size = slices.Clone(a.Size)
	sum, permissions := slices.Clone(a.Size), q.permissions
	for i := range sum {
		sum[i].Value = 0
	}
	var t tally
	for slot := range v.Len() {
		c := q.candidate(slot)
		served, all := q.shrink(c, a.Size)
		if !served {
			continue
		}
		if q.permissions = permissions; !all { // the terms may allow another size
			q.permissions = nil
		}
		_, why := q.eliminate(c)
		if why == passes {
			for i := range sum {
				sum[i].Value += q.Size[i].Value
			}
			t.qualified(&ranked{q.score(c), c.Listing})
		}
	}
	out := &api.Fits{Sum: sum.Resources(), Qualified: t.candidates}
	for _, r := range t.best[:min(len(t.best), most)] {
		c := q.candidate(r.Slot)
		q.shrink(c, a.Size)
		fit := api.Fit{Cluster: r.Cluster, Score: r.score, Resources: q.Size.Resources(), Bought: q.bought(c)}
		shapes := q.shapes(c)
		if !noHub(c) { // it shows nothing of the nodes behind it
			shapes = []market.Shape{{Nodes: 1, Free: q.Size}}
		}
		for _, pod := range pods {
			fit.Pods = append(fit.Pods, podsOf(shapes, q.Size, pod))
		}
		out.Clusters = append(out.Clusters, fit)
	}
	return out
}

// shrink sets the question's size to what a cluster may serve of the whole. served is false if that
// is nothing of some resource, or less than one pod of the ask; all is true if it is the whole.
func (q *question) shrink(c *candidate, whole amounts.List) (served, all bool) {
	if c.pool == nil || c.Measured == nil {
		return false, false
	}
	terms, already, all := c.Measured.Terms, c.pool.Accounts[q.Consumer], true
	for i, need := range whole {
		value := min(need.Value, c.capacities[i].available)
		if terms != nil {
			for _, limit := range terms.MaxPerReservation {
				if limit.Resource == need.Resource {
					value = min(value, limit.Value)
				}
			}
			for _, limit := range terms.MaxPerConsumer {
				if limit.Resource == need.Resource {
					value = min(value, limit.Value-already.Of(need.Resource))
				}
			}
		}
		if value <= 0 {
			return false, false
		}
		q.Size[i].Value, all = value, all && value == need.Value
	}
	if !q.Size.Fits(q.Pod) {
		return false, false
	}
	q.cheapest = choice{} // it is for a size
	return true, all
}

// podsOf returns how many pods of a shape fit on nodes of these shapes, within a size. Fewer fit if capacity
// that is reserved and not used yet takes their places.
func podsOf(shapes []market.Shape, size, pod amounts.List) (n int64) {
	room := func(free amounts.List) int64 {
		least := int64(-1)
		for _, need := range pod {
			if each := free.Of(need.Resource) / need.Value; least < 0 || each < least {
				least = each
			}
		}
		return least
	}
	for _, s := range shapes {
		n += s.Nodes * room(s.Free)
	}
	return min(n, room(size))
}
