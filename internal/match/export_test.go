package match

import (
	"k8s.io/utils/lru"

	"github.com/bourse-dev/bourse/internal/market"
)

// Forget drops what the ask's `where` came to, and keeps it compiled.
func (a Ask) Forget() { a.where.results.values.Store(nil) }

// DecidePlainly decides with nothing remembered of any cluster and no filter skipped.
func (e *Engine) DecidePlainly(v *market.View, a Ask, now market.Time) Ranking {
	fresh := &Engine{where: e.where, allow: e.allow, kinds: lru.New(1)}
	if a.where != nil {
		a.where = &program{cel: a.where.cel}
	}
	q := fresh.question(v, a, now)
	for slot := range v.Len() {
		c := newCandidate(v.At(slot), &a)
		c.alwaysPasses = 0
		q.candidates[slot].Store(c)
	}
	return q.decide()
}
