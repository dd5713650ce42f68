package match

import (
	"sort"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Evaluate decides, and adds a verdict for each cluster that the consumer may see: the candidates, best first,
// then the eliminated ones, nearest first.
func (e *Engine) Evaluate(v *market.View, a Ask, now market.Time) api.Evaluation {
	out := api.Evaluation{Decision: e.Decide(v, a, now).Decision}
	q := e.question(v, a, now)
	var verdicts []verdict
	for slot := range v.Len() {
		c := q.candidate(slot)
		filter, why := q.eliminate(c)
		if why == passes || !filters[filter].hides && !c.Gone() {
			verdicts = append(verdicts, q.verdict(c, filter, why))
		}
	}
	sort.Slice(verdicts, func(i, j int) bool { return verdicts[i].miss.before(&verdicts[j].miss) })
	for _, v := range verdicts {
		out.Clusters = append(out.Clusters, v.verdict)
	}
	return out
}

// verdict is the verdict on a cluster, with a miss to sort it by. A candidate sorts as one that passed the
// last filter and lacks a negative amount.
type verdict struct {
	verdict api.Verdict
	miss    miss
}

func (q *question) verdict(c *candidate, filter int, r reason) verdict {
	if r == passes {
		score := q.score(c)
		return verdict{
			verdict: api.Verdict{Cluster: c.Cluster, Score: score, Bought: q.bought(c)},
			miss:    miss{filter: len(filters), short: -score, Listing: c.Listing},
		}
	}
	f := &filters[filter]
	return verdict{
		verdict: api.Verdict{Cluster: c.Cluster, Filter: f.name, Reason: reasonNames[r], Message: f.explain(q, c, r)},
		miss:    missOf(q, c, filter, r),
	}
}
