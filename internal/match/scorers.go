package match

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// scorer rates a candidate from 0 to a million. More is better. Unknown facts rate 0.
type scorer struct {
	name   string
	weight int64
	score  func(q *question, c *candidate) int64
}

// strategies are the weightings of the scorers. A candidate's score is the weighted mean;
// candidates with the same score rank by name.
var strategies = map[api.Strategy][]scorer{
	api.Balance: {{"headroom", 1, headroom}},
	api.Pack:    {{"fullness", 1, fullness}},
	// One percentage point of uptime or of kept promises weighs as much as all headroom: the difference
	// between 99.9 % and 99 % is large.
	api.Reliable: {{"uptime", 100, uptime}, {"honoured", 100, honoured}, {"headroom", 1, headroom}},
	// One hundredth of the highest price weighs as much as all headroom.
	api.Cheap: {{"price", 100, cheapness}, {"headroom", 1, headroom}},
}

// scorersFor returns the scorers of the strategy and, if the consumer may see a cluster of Prefer, preference. Its
// weight is such that one place in Prefer, at least a sixteenth of a million, outweighs all others
// together.
func scorersFor(r *api.Request, prefers bool) []scorer {
	all := strategies[r.Strategy]
	if !prefers {
		return all
	}
	var weights int64
	for _, s := range all {
		weights += s.weight
	}
	return append(slices.Clip(all), scorer{"preference", 20 * weights, preference})
}

// score is the weighted mean of the scorers.
func (q *question) score(c *candidate) int64 {
	var sum, weights int64
	for i := range q.scorers {
		s := &q.scorers[i]
		sum += s.weight * s.score(q, c)
		weights += s.weight
	}
	if weights == 1 { // the usual case: a division takes longer than all of the above
		return sum
	}
	return sum / weights
}

// scores returns the result of each scorer.
func (q *question) scores(c *candidate) []api.Score {
	out := make([]api.Score, len(q.scorers))
	for i, s := range q.scorers {
		out[i] = api.Score{Scorer: s.name, Value: s.score(q, c)}
	}
	return out
}

// headroom is the share of the shared amount that is left after the reservation, for the scarcest resource.
func headroom(q *question, c *candidate) int64 {
	least := fraction{1, 1}
	for i := range q.Size {
		if f := left(q, c, i); f.less(least) {
			least = f
		}
	}
	return least.millionths()
}

// fullness is the share of the shared amount that is taken after the reservation, for the least used resource.
func fullness(q *question, c *candidate) int64 {
	most := fraction{0, 1}
	for i := range q.Size {
		if f := left(q, c, i); most.less(f) {
			most = f
		}
	}
	return million - most.millionths()
}

// left returns the share of the i-th resource that is left after the reservation. A candidate has enough
// capacity, so this is not negative.
func left(q *question, c *candidate, i int) fraction {
	has := c.capacities[i]
	return fraction{has.available - q.Size[i].Value, has.shared}
}

// uptime is the share of the last 30 days with a live lease. Unknown uptime is 0.
func uptime(_ *question, c *candidate) int64 { return max(0, c.Uptime) }

// honoured is the share of its promises that the cluster kept. An unknown share is 0.
func honoured(_ *question, c *candidate) int64 { return max(0, c.Honoured) }

// preference falls from a million for the first of Prefer. It is 0 for other clusters.
func preference(q *question, c *candidate) int64 {
	n := len(q.Request.Prefer)
	i := slices.Index(q.Request.Prefer, c.Cluster)
	if i < 0 {
		return 0
	}
	return int64(million * (n - i) / n)
}
