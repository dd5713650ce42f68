package usage

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// Account is what the Ledger says of one consumer in one pool.
type Account struct {
	// Bound are the reservations that both sides are bound by, Ending those that are being released.
	Bound, Ending []*market.Reservation
}

// Owed returns the sum of what is bound.
func (a Account) Owed() (sum market.Amounts) {
	for _, r := range a.Bound {
		sum = sum.Plus(r.Size)
	}
	return sum
}

// All returns the reservations of the account, the bound ones first.
func (a Account) All() []*market.Reservation {
	return append(append([]*market.Reservation(nil), a.Bound...), a.Ending...)
}

// givenUp returns the parts that reservations gave up by becoming smaller.
func givenUp(all []*market.Reservation) (parts []*market.Reservation) {
	for _, r := range all {
		if part := r.Ending(); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// Accounts reads the accounts that have something here, by the users of their slices: those of one consumer,
// or all if consumer is empty.
func (u *Usage) Accounts(ctx context.Context, consumer string) (map[string]Account, error) {
	all := map[string]Account{}
	err := u.options.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(s.Self, 0) {
			if r.Provider != s.Self || consumer != "" && r.Consumer != consumer || !r.Bound() && r.State != api.Releasing {
				continue
			}
			user := grant.User(r.Slice(), r.Consumer)
			a := all[user]
			if r.Bound() {
				a.Bound = append(a.Bound, r)
			} else {
				a.Ending = append(a.Ending, r)
			}
			all[user] = a
		}
	})
	return all, err
}

// Account reads the account whose slice has this name.
func (u *Usage) Account(ctx context.Context, consumer, slice string) (Account, error) {
	all, err := u.Accounts(ctx, consumer)
	return all[grant.User(slice, consumer)], err
}
