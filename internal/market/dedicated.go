package market

import (
	"github.com/bourse-dev/bourse/api"
)

// Dedicated reports whether the reservation's plan gives the whole pool to its consumer.
func (r *Reservation) Dedicated() bool {
	p := r.Bought()
	return p != nil && p.Dedicated
}

// dedicate adds sign to the number of reservations that give the pool to one consumer.
func (b *poolState) dedicate(consumer string, sign int64) {
	if b.owners == nil {
		b.owners = map[string]int64{}
	}
	if b.owners[consumer] += sign; b.owners[consumer] == 0 {
		delete(b.owners, consumer)
	}
}

// owner returns a consumer, other than besides, to whom the pool is dedicated, or an empty text. Several are
// possible after a Ledger was lost. Then it is the first by name.
func (b *poolState) owner(besides string) (owner string) {
	for consumer := range b.owners {
		if consumer != besides && (owner == "" || consumer < owner) {
			owner = consumer
		}
	}
	return owner
}

// has reports whether the account has any amount, reserved or used.
func (a *account) has() bool { return a.total().Positive() }

// tenant returns the only consumer of the pool. It is empty if there is none, or several.
func (b *poolState) tenant() string {
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

// shared reports whether a consumer other than besides has something of the pool.
func (b *poolState) shared(besides string) bool { return b.tenants > 0 && b.tenant() != besides }

// checkDedicated reports why a reservation from sale cannot use a pool because of other consumers,
// or nil. sale may be nil. Errors: Insufficient.
func (s *State) checkDedicated(provider, pool, consumer string, sale *api.Sale) error {
	p := s.providers[provider]
	if p == nil || p.pools[pool] == nil {
		return nil
	}
	b := p.pools[pool]
	if owner := b.owner(consumer); owner != "" {
		return api.Errorf(api.CodeInsufficient, "pool %q of cluster %s is dedicated to another consumer", pool, provider).
			Fix("ask for another pool or cluster, or again later")
	}
	if sale == nil {
		return nil
	}
	r := Reservation{Sale: sale, Offer: s.offers[sale.Offer]}
	if r.Dedicated() && b.shared(consumer) {
		return api.Errorf(api.CodeInsufficient, "pool %q of cluster %s has other consumers, and plan %s needs the whole pool",
			pool, provider, sale.Plan).Fix("buy another plan, or again later")
	}
	return nil
}
