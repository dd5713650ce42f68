package match

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

const (
	maxRanked = 8 // providers that a reservation may try
	maxTop    = 5 // candidates that a decision explains

	rememberKinds = 8 // each keeps the listings of its last decision in memory
)

// Engine decides. It caches compiled expressions, and the result of each `where` for each cluster. It is safe
// for concurrent use.
type Engine struct {
	where, allow *language
	kinds        *lru.Cache // caches of candidates, by kind
}

// New makes an engine. It serves one market, because its caches are by slot.
func New() *Engine {
	return &Engine{where: whereLanguage(), allow: allowLanguage(), kinds: lru.New(rememberKinds)}
}

// Ranking is the result of an ask.
type Ranking struct {
	// Providers are the best candidates, at most eight, best first. Empty: no cluster qualifies.
	Providers []string
	// Plans are, by provider, the plans of those that sell instead of lending. Nil: all lend.
	Plans map[string]*api.Sale
	// Decision is the explanation.
	Decision api.Decision
	// Part is the size that the explanation is about, where that is a part of the ask. Nil: it is the whole.
	Part amounts.List
}

// Decide ranks the clusters of a view for an ask. The same view, ask and time give the same ranking.
func (e *Engine) Decide(v *market.View, a Ask, now market.Time) Ranking {
	return e.question(v, a, now).decide()
}

func (q *question) decide() Ranking {
	var t tally
	for slot := range q.view.Len() {
		c := q.candidate(slot)
		filter, why := q.eliminate(c)
		if why != passes && c.Gone() {
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

// question is an ask against one view: the input of filters and scorers besides the cluster.
type question struct {
	Ask
	view       *market.View
	now        market.Time
	slot       int       // of the consumer, -1 if the view does not have it
	card       *api.Card // of the consumer
	terms      *market.Terms
	member     *market.Member
	liqo       liqoprotocol.Protocol // the consumer's
	liqoText   string
	filters    uint32 // the bits of those that are not moot
	candidates []atomic.Pointer[candidate]
	where      whereResults
	allow      *language
	// permissions are known results of Terms.Allow. Nil: none is remembered.
	permissions map[string]bool
	scorers     []scorer
	limit       *money.Limit // nil: only the purchase that the request names
	cheapest    choice       // of the last cluster
}

func (e *Engine) question(v *market.View, a Ask, now market.Time) *question {
	q := &question{Ask: a, view: v, now: now, slot: -1, card: &api.Card{Cluster: a.Consumer},
		candidates: e.candidates(a.kind()).open(v.Len()),
		where:      e.where.open(a.where, v.Len()),
		allow:      e.allow, permissions: map[string]bool{},
	}
	if l := v.Listing(a.Consumer); l != nil {
		q.slot, q.member = l.Slot, l.Member
		if l.Measured != nil {
			q.terms = l.Measured.Terms
		}
		if l.Member != nil && l.Member.Card != nil {
			q.card = l.Member.Card
		}
	}
	q.liqo, q.liqoText = protocolOf(q.card)
	if a.Request.MaxPrice != nil && a.Request.Purchase == nil {
		q.limit, _ = money.LimitOf("maxPrice", a.Request.MaxPrice, now.Go(), a.Duration) // Ask has read it
	}
	for i := range filters {
		if moot := filters[i].moot; moot == nil || !moot(q) {
			q.filters |= 1 << i
		}
	}
	q.scorers = scorersFor(&a.Request, slices.ContainsFunc(a.Request.Prefer, q.shows))
	return q
}

// shows reports whether the consumer may see a cluster.
func (q *question) shows(cluster string) bool {
	l := q.view.Listing(cluster)
	if l == nil {
		return false
	}
	c := q.candidate(l.Slot)
	filter, why := q.eliminate(c)
	return why == passes || !filters[filter].hides && !c.Gone()
}

func (e *Engine) candidates(kind string) *slotCache[candidate] {
	if known, ok := e.kinds.Get(kind); ok {
		return known.(*slotCache[candidate])
	}
	b := &slotCache[candidate]{}
	e.kinds.Add(kind, b)
	return b
}

// candidate returns the cluster in a slot of the view. It is immutable.
func (q *question) candidate(slot int) *candidate {
	l := q.view.At(slot)
	if c := q.candidates[slot].Load(); c != nil && c.Listing == l {
		return c
	}
	c := newCandidate(l, &q.Ask)
	q.candidates[slot].Store(c)
	return c
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
