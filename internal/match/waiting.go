package match

import (
	"slices"

	"github.com/bourse-dev/bourse/internal/market"
)

func noneRefused(q *question) bool { return len(q.Refused) == 0 }

func notRefused(q *question, c *candidate) reason {
	return when(slices.Contains(q.Refused, c.Cluster), refused)
}

func nothingKept(q *question) bool { return q.Kept == "" }

func notKept(q *question, c *candidate) reason { return when(c.Cluster == q.Kept, kept) }

// Serves reports whether the cluster in a slot qualifies for an ask.
func (e *Engine) Serves(v *market.View, a Ask, slot int, now market.Time) bool {
	q := e.question(v, a, now)
	_, why := q.eliminate(q.candidate(slot))
	return why == passes
}

// Could reports whether the cluster in a slot would qualify for an ask without its other consumers.
func (e *Engine) Could(v *market.View, a Ask, slot int, now market.Time) bool {
	q := e.question(v, a, now)
	return q.could(q.candidate(slot))
}

// Nearest returns the cluster that lacks least among those that would qualify for an ask without their other
// consumers. Empty: there is none.
func (e *Engine) Nearest(v *market.View, a Ask, now market.Time) string {
	q := e.question(v, a, now)
	nearest, least := "", int64(0)
	for slot := range v.Len() {
		c := q.candidate(slot)
		if !q.could(c) {
			continue
		}
		if short := shortfall(q, c); nearest == "" || short < least || short == least && c.Cluster < nearest {
			nearest, least = c.Cluster, short
		}
	}
	return nearest
}

func (q *question) could(c *candidate) bool {
	filter, why := q.eliminate(c)
	if why == passes {
		return true
	}
	if !filters[filter].temporary || why == noShapes || q.limit != nil && affordable(q, c) != passes ||
		q.Refused != nil && slices.Contains(q.Refused, c.Cluster) {
		return false
	}
	all := c.pool.Available.Plus(c.pool.Reserved)
	for _, need := range q.Size {
		if all.Of(need.Resource) < need.Value {
			return false
		}
	}
	return true
}
