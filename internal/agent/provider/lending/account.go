package lending

import (
	"context"
	"maps"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// Account is what the Ledger says of one consumer in one pool, and what the SharingPolicy grants it.
type Account struct {
	Consumer, Slice, Pool string
	// Plain is the max of a plain consumer's slice, nil for other accounts.
	Plain amounts.List
	// Bound are the reservations that both sides are bound by, Ending those that are being released.
	Bound, Ending []*market.Reservation

	reserved amounts.List // the sum of Bound
}

// Owed returns the sum of what is bound, and the max of a plain consumer.
func (a Account) Owed() amounts.List { return a.Plain.Plus(a.reserved) }

// givenUp returns the parts that reservations gave up by becoming smaller.
func givenUp(all []*market.Reservation) (parts []*market.Reservation) {
	for _, r := range all {
		if part := r.Ending(); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// accounts are those of a revision of the Ledger, without plain consumers. They do not change.
type accounts struct {
	revision uint64
	of       map[string]map[string]Account // by consumer, and by the user of the slice
}

// readAccounts returns the accounts by the newest revision of the Ledger. It sums reservations only where the Ledger
// has changed: each reservation that ends reads its account every second.
func (u *Usage) readAccounts(ctx context.Context) (*accounts, error) {
	all := u.accounts.Load()
	err := u.options.Market.Read(ctx, func(s *market.State) {
		if all == nil || all.revision != s.Revision {
			all = sumAccounts(s)
		}
	})
	if err != nil { // without the reservations, what is granted for them would seem to be too much
		return nil, err
	}
	u.accounts.Store(all)
	return all, nil
}

// sumAccounts returns the accounts of a Ledger.
func sumAccounts(s *market.State) *accounts {
	all := &accounts{revision: s.Revision, of: map[string]map[string]Account{}}
	for _, r := range s.Of(s.Self, 0) {
		if r.Provider != s.Self || !r.Bound() && r.State != api.Releasing {
			continue
		}
		if all.of[r.Consumer] == nil {
			all.of[r.Consumer] = map[string]Account{}
		}
		user := grant.User(r.Slice(), r.Consumer)
		a := all.of[r.Consumer][user]
		a.Consumer, a.Slice, a.Pool = r.Consumer, r.Slice(), r.Pool
		if r.Bound() {
			a.Bound, a.reserved = append(a.Bound, r), a.reserved.Plus(r.Size)
		} else {
			a.Ending = append(a.Ending, r)
		}
		all.of[r.Consumer][user] = a
	}
	return all
}

// Accounts reads the accounts that have something here, by the users of their slices: those of one consumer,
// or all if consumer is empty.
func (u *Usage) Accounts(ctx context.Context, consumer string) (map[string]Account, error) {
	known, err := u.readAccounts(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Account{}
	maps.Copy(all, known.of[consumer])
	if consumer == "" {
		for _, of := range known.of {
			maps.Copy(all, of)
		}
	}
	for pool, c := range u.options.Sharing().PlainConsumers() {
		if consumer != "" && c.Cluster != consumer {
			continue
		}
		user := grant.User(c.Slice, c.Cluster)
		a := all[user]
		a.Consumer, a.Slice, a.Pool = c.Cluster, c.Slice, pool
		if a.Plain, err = amounts.ParseCapacity("max", c.Max); err != nil {
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
