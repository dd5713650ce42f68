package market

import (
	"github.com/bourse-dev/bourse/api"
)

// share is what one consumer has of a pool.
type share struct{ pool, consumer string }

// Dedicated says whether the reservation's plan makes its pool its consumer's alone.
func (r *Reservation) Dedicated() bool {
	if r.Sale == nil || r.Offer == nil {
		return false
	}
	p := r.Offer.Plan(r.Sale.Plan)
	return p != nil && p.Dedicated
}

// dedicate makes one more, or one less, of what makes a pool its consumer's alone.
func (p *provider) dedicate(to share, sign int64) {
	if p.dedicated == nil {
		p.dedicated = map[share]int64{}
	}
	if p.dedicated[to] += sign; p.dedicated[to] == 0 {
		delete(p.dedicated, to)
	}
}

// owner is a consumer, other than this one, whose alone a pool is; empty if it is nobody's. Of several, which cannot be unless a lost
// Ledger was put together again, it is the first by name.
func (p *provider) owner(pool, besides string) (owner string) {
	if len(p.dedicated) == 0 {
		return ""
	}
	for s := range p.dedicated {
		if s.pool == pool && s.consumer != besides && (owner == "" || s.consumer < owner) {
			owner = s.consumer
		}
	}
	return owner
}

// has says whether the account has something: reserved or used.
func (a *account) has() bool { return a.total().some() }

// tenant is the only consumer that has something of the pool; empty where none has, or several.
func (b *book) tenant() string {
	if b.tenants != 1 {
		return ""
	}
	for consumer, a := range b.accounts {
		if a.has() {
			return consumer
		}
	}
	return ""
}

// shared says whether a consumer other than this one has something of the pool.
func (b *book) shared(besides string) bool { return b.tenants > 0 && b.tenant() != besides }

// checkDedicated reports why a reservation from sale cannot use a pool because of other consumers, or nil. sale may be nil.
// Errors: Insufficient.
func (s *State) checkDedicated(provider, pool, consumer string, sale *api.Sale) error {
	p := s.providers[provider]
	if p == nil {
		return nil
	}
	if owner := p.owner(pool, consumer); owner != "" {
		return api.Errorf(api.CodeInsufficient, "pool %q of cluster %s is another's alone", pool, provider).Fix("ask for another pool or cluster, or again later")
	}
	if sale == nil {
		return nil
	}
	r := Reservation{Sale: sale, Offer: s.offers[sale.Offer]}
	if b := p.books[pool]; r.Dedicated() && b != nil && b.shared(consumer) {
		return api.Errorf(api.CodeInsufficient, "pool %q of cluster %s is not free of others, and plan %s is sold for one alone", pool, provider, sale.Plan).
			Fix("buy another plan, or again later")
	}
	return nil
}
