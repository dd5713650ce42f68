package lending

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// Account is what the Ledger says of one consumer in one pool, and what the SharingPolicy grants it.
type Account struct {
	Consumer, Slice, Pool string
	// Plain is the max of a plain consumer's slice, nil for other accounts.
	Plain market.Amounts
	// Bound are the reservations that both sides are bound by, Ending those that are being released.
	Bound, Ending []*market.Reservation
}

// Owed returns the sum of what is bound, and the max of a plain consumer.
func (a Account) Owed() market.Amounts {
	sum := a.Plain
	for _, r := range a.Bound {
		sum = sum.Plus(r.Size)
	}
	return sum
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
			a.Consumer, a.Slice, a.Pool = r.Consumer, r.Slice(), r.Pool
			if r.Bound() {
				a.Bound = append(a.Bound, r)
			} else {
				a.Ending = append(a.Ending, r)
			}
			all[user] = a
		}
	})
	if err != nil { // without the reservations, what is granted for them would seem to be too much
		return nil, err
	}
	for pool, c := range u.options.Sharing().PlainConsumers() {
		if consumer != "" && c.Cluster != consumer {
			continue
		}
		user := grant.User(c.Slice, c.Cluster)
		a := all[user]
		a.Consumer, a.Slice, a.Pool = c.Cluster, c.Slice, pool
		if a.Plain, err = market.ParseCapacity("max", c.Max); err != nil {
			return nil, err
		}
		all[user] = a
	}
	return all, nil
}

// Account reads the account whose slice has this name.
func (u *Usage) Account(ctx context.Context, consumer, slice string) (Account, error) {
	all, err := u.Accounts(ctx, consumer)
	return all[grant.User(slice, consumer)], err
}
