package match

import (
	"slices"
	"sort"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// tally is the intermediate result of a decision. It does not depend on the order of clusters.
type tally struct {
	considered         int
	hidden, candidates int
	eliminated         [reasons]count
	best               []ranked // at most maxRanked, best first
	nearest            miss
}

// count is how many clusters a filter eliminated for a reason.
type count struct{ filter, n int }

// ranked is a candidate with its score.
type ranked struct {
	score int64
	*market.Listing
}

// before reports whether r ranks before o: by score, then by name.
func (r *ranked) before(o *ranked) bool {
	if r.score != o.score {
		return r.score > o.score
	}
	return r.Cluster < o.Cluster
}

// miss is an eliminated cluster, with the filter that eliminated it and how much was missing there.
type miss struct {
	filter int
	reason reason
	short  int64
	*market.Listing
}

// before reports whether m is nearer than o: by the later filter, the smaller lack, then by name.
func (m *miss) before(o *miss) bool {
	switch {
	case m.filter != o.filter:
		return m.filter > o.filter
	case m.short != o.short:
		return m.short < o.short
	}
	return m.Cluster < o.Cluster
}

// qualified counts a candidate and ranks it if it is among the best.
func (t *tally) qualified(r *ranked) {
	t.candidates++
	if len(t.best) == maxRanked {
		if !r.before(&t.best[maxRanked-1]) {
			return
		}
		t.best = t.best[:maxRanked-1]
	}
	i := sort.Search(len(t.best), func(i int) bool { return r.before(&t.best[i]) })
	t.best = slices.Insert(t.best, i, *r)
}

// miss counts an eliminated cluster, and records it if it is the nearest miss.
func (t *tally) miss(q *question, c *candidate, filter int, r reason) {
	t.eliminated[r] = count{filter, t.eliminated[r].n + 1}
	if filters[filter].chosen || filter < t.nearest.filter {
		return
	}
	if m := missOf(q, c, filter, r); t.nearest.Listing == nil || m.before(&t.nearest) {
		t.nearest = m
	}
}

func missOf(q *question, c *candidate, filter int, r reason) miss {
	m := miss{filter: filter, reason: r, Listing: c.Listing}
	if short := filters[filter].short; short != nil {
		m.short = short(q, c)
	}
	return m
}

// ranking returns the result, with its explanation.
func (t *tally) ranking(q *question) Ranking {
	out := Ranking{
		Providers: make([]string, 0, len(t.best)),
		Decision: api.Decision{Considered: t.considered, Hidden: t.hidden, Candidates: t.candidates,
			Top: make([]api.Scored, 0, min(len(t.best), maxTop))},
	}
	d := &out.Decision
	for r, c := range t.eliminated {
		if c.n > 0 {
			d.Eliminated = append(d.Eliminated, api.Elimination{Filter: filters[c.filter].name, Reason: reasonNames[r],
				Count: c.n})
		}
	}
	for i, r := range t.best {
		out.Providers = append(out.Providers, r.Cluster)
		c := q.candidate(r.Slot)
		bought := q.bought(c)
		if bought != nil {
			if out.Plans == nil {
				out.Plans = map[string]*api.Sale{}
			}
			out.Plans[r.Cluster] = q.cheapest.sale()
		}
		if i < maxTop {
			d.Top = append(d.Top, api.Scored{Cluster: r.Cluster, Score: r.score, Scores: q.scores(c), Bought: bought})
		}
	}
	if len(t.best) > 0 {
		d.Chosen, d.Sequence = t.best[0].Cluster, t.best[0].Measured.Sequence
	}
	if m := t.nearest; m.Listing != nil {
		c := q.candidate(m.Slot)
		f := &filters[m.filter]
		d.NearestMiss = &api.Miss{Cluster: m.Cluster, Filter: f.name, Message: f.explain(q, c, m.reason)}
	}
	return out
}
