package match

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// scorer rates a candidate from 0 to a million; more is better. What a cluster does not say rates 0.
type scorer struct {
	name   string
	weight int64
	score  func(q *question, c *candidate) int64
}

// preferred weighs so much that one place in Prefer, at least a sixteenth of a
// million, outweighs everything that the other scorer can say.
var preferred = scorer{"preference", 20, preference}

// preferredReliable and preferredCheap do the same beside what these strategies weigh.
var (
	preferredReliable = scorer{"preference", 20 * 201, preference}
	preferredCheap    = scorer{"preference", 20 * 101, preference}
)

// strategies are the weightings of the scorers. A candidate's score is the weighted mean;
// candidates with the same score rank by name.
var strategies = map[api.Strategy][]scorer{
	api.Balance: {{"headroom", 1, headroom}, preferred},
	api.Pack:    {{"fullness", 1, fullness}, preferred},
	// A hundredth of uptime, or of the promises that were kept, is worth as much as all that may be
	// left: 99.9 % and 99 % are a world apart.
	api.Reliable: {{"uptime", 100, uptime}, {"honoured", 100, honoured}, {"headroom", 1, headroom}, preferredReliable},
	// So is a hundredth of the ceiling: who wants it cheap says how cheap.
	api.Cheap: {{"price", 100, cheapness}, {"headroom", 1, headroom}, preferredCheap},
}

// scorersFor leaves out preference, the last of each strategy, where there is none, so
// that scores span the whole range.
func scorersFor(r *api.Request) []scorer {
	all := strategies[r.Strategy]
	if len(r.Prefer) == 0 {
		return all[:len(all)-1]
	}
	return all
}

// score is the weighted mean of the scorers.
func (q *question) score(c *candidate) int64 {
	var sum, weights int64
	for i := range q.scorers {
		s := &q.scorers[i]
		sum += s.weight * s.score(q, c)
		weights += s.weight
	}
	if weights == 1 { // most often: a division takes longer than all of the above
		return sum
	}
	return sum / weights
}

// scores are what each scorer says.
func (q *question) scores(c *candidate) []api.Score {
	out := make([]api.Score, len(q.scorers))
	for i, s := range q.scorers {
		out[i] = api.Score{Scorer: s.name, Value: s.score(q, c)}
	}
	return out
}

// headroom is the part of what is shared that is left after the reservation, of the
// resource of which least is left.
func headroom(q *question, c *candidate) int64 {
	least := fraction{1, 1}
	for i := range q.Size {
		if f := left(q, c, i); f.less(least) {
			least = f
		}
	}
	return least.millionths()
}

// fullness is the part of what is shared that is taken after the reservation, of the
// resource of which least is taken.
func fullness(q *question, c *candidate) int64 {
	most := fraction{0, 1}
	for i := range q.Size {
		if f := left(q, c, i); most.less(f) {
			most = f
		}
	}
	return million - most.millionths()
}

// left is what is left of the i-th resource after the reservation, as a part of what is shared.
// A candidate has room, so it shares at least what is asked and the rest is not negative.
func left(q *question, c *candidate, i int) fraction {
	room := c.capacityOf(i)
	return fraction{room.available - q.Size[i].Value, room.shared}
}

// uptime is the share of the last 30 days in which the cluster was there. One that is not known is 0.
func uptime(_ *question, c *candidate) int64 { return max(0, int64(c.uptime)) }

// honoured is the share of its promises that the cluster kept. One that is not known is 0.
func honoured(_ *question, c *candidate) int64 { return max(0, int64(c.honoured)) }

// preference falls from a million for the first of Prefer; it is 0 for who is not named.
func preference(q *question, c *candidate) int64 {
	n := len(q.Request.Prefer)
	i := slices.Index(q.Request.Prefer, c.Cluster)
	if i < 0 {
		return 0
	}
	return int64(million * (n - i) / n)
}
