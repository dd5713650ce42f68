package match

import (
	"math/bits"

	"k8s.io/utils/lru"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

const (
	maxRanked = 8 // providers that a reservation may try
	maxTop    = 5 // candidates that a decision explains

	rememberKinds = 8 // each keeps alive what the view was when it was last asked for
)

// Engine decides. It holds what is worth remembering between decisions: compiled
// expressions, and what each `where` came to for each cluster. It is safe for concurrent use.
type Engine struct {
	where, allow *language
	kinds        *lru.Cache // books of candidates
}

// New makes an engine. One serves one market, because what it remembers is by slot.
func New() *Engine {
	return &Engine{where: whereLanguage(), allow: allowLanguage(), kinds: lru.New(rememberKinds)}
}

// Ranking is what an ask came to.
type Ranking struct {
	// Providers are the best candidates, at most eight, best first. Empty: no cluster qualifies.
	Providers []string
	// Plans are, by provider, what those of them would sell that do not lend; nil where all lend.
	Plans map[string]*api.Sale
	// Decision is the explanation.
	Decision api.Decision
}

// Decide ranks the clusters of a view for an ask. The same view, ask and time give the same ranking.
func (e *Engine) Decide(v *market.View, a Ask, now market.Time) Ranking {
	q := e.question(v, a, now)
	defer q.close()
	return q.decide()
}

func (q *question) decide() Ranking {
	var t tally
	for slot := range q.view.Len() {
		c := q.candidate(slot)
		filter, why := q.eliminate(c)
		if why != passes && c.gone {
			continue
		}
		t.considered++
		switch {
		case why == passes:
			t.qualified(&ranked{q.score(c), c.Listing})
		case filters[filter].hides:
			t.hidden++
		default:
			t.miss(q, c, filter, why)
		}
	}
	return t.ranking(q)
}

// question is an ask put to one view: what filters and scorers know besides the cluster.
type question struct {
	Ask
	view       *market.View
	now        market.Time
	slot       int32     // of the consumer, -1 if the view does not have it
	card       *api.Card // of the consumer
	terms      *market.Terms
	member     *market.Member
	liqo       int32  // the consumer's, see minor
	filters    uint32 // by their bits, those that the request leaves anything to do
	candidates cacheReading[candidate]
	where      whereResults
	allow      permissions
	scorers    []scorer
	limit      *money.Limit // nil: nothing is bought but what the request names
	cheapest   choice       // of the cluster that was looked at last
}

// question opens a question. The caller must close it.
func (e *Engine) question(v *market.View, a Ask, now market.Time) *question {
	q := &question{Ask: a, view: v, now: now, slot: -1, card: &api.Card{Cluster: a.Consumer},
		candidates: e.candidates(a.kind()).open(),
		where:      e.where.open(a.where),
		allow:      permissions{language: e.allow},
		scorers:    scorersFor(&a.Request),
	}
	if l := v.Listing(a.Consumer); l != nil {
		q.slot, q.member = int32(l.Slot), l.Member
		if l.Measured != nil {
			q.terms = l.Measured.Terms
		}
		if l.Member != nil && l.Member.Card != nil {
			q.card = l.Member.Card
		}
	}
	q.liqo = minor(q.card)
	if a.Request.MaxPrice != nil && a.Request.Purchase == nil {
		q.limit, _ = money.LimitOf("maxPrice", a.Request.MaxPrice, now.Go(), a.Duration) // Ask has read it
	}
	for i := range filters {
		if moot := filters[i].moot; moot == nil || !moot(q) {
			q.filters |= 1 << i
		}
	}
	return q
}

func (e *Engine) candidates(kind string) *slotCache[candidate] {
	if known, ok := e.kinds.Get(kind); ok {
		return known.(*slotCache[candidate])
	}
	b := &slotCache[candidate]{}
	e.kinds.Add(kind, b)
	return b
}

func (q *question) close() {
	q.candidates.close()
	q.where.close()
}

// candidate is the cluster in a slot of the view. It is not to be written.
func (q *question) candidate(slot int) *candidate {
	l := q.view.At(slot)
	if c := q.candidates.at(slot); c.Listing == l {
		return c
	}
	return q.candidates.put(slot, newCandidate(l, &q.Ask))
}

// eliminate returns the first filter that has a reason against the cluster, or passes.
func (q *question) eliminate(c *candidate) (filter int, r reason) {
	open := q.filters &^ c.alwaysPasses
	for ; open != 0; open &= open - 1 {
		i := bits.TrailingZeros32(open)
		if r := filters[i].check(q, c); r != passes {
			return i, r
		}
	}
	return 0, passes
}
