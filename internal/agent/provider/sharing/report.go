package sharing

import (
	"cmp"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// reportTo returns what an outlet is to know of a measurement. It names the consumers of the reservations that
// the outlet knows, and adds up the rest. An outlet at which the cluster does not share gets only what it knows.
// Nil is this cluster's own gate, which knows all.
func (m *measured) reportTo(o *transport.Outlet) api.Measurement {
	report := m.Measurement
	report.Pools = make(map[string]api.Pool, len(m.Pools))
	lent := map[string]*lending{}
	shown := o == nil || session.IsShownAt(o.Via, m.Brokers)
	if !shown {
		report.Terms = nil
	} else {
		for name, pool := range m.Pools {
			lent[name], report.Pools[name] = &lending{}, pool
		}
	}
	for _, r := range m.accepted {
		if lent[r.Pool] == nil {
			lent[r.Pool] = &lending{}
		}
		lent[r.Pool].add(r, o == nil || o.Knows(r))
	}
	for name, l := range lent {
		if shown { // also a pool that the policy no longer has: units of its plans are sold
			report.Pools[name] = l.report(report.Pools[name], o == nil || !session.IsBroker(o.Via))
		} else if len(l.known) > 0 {
			report.Pools[name] = api.Pool{Accounts: l.known}
		}
	}
	return report
}

// lending is what a pool lends: to consumers by name, by reservations that an outlet knows, and the rest.
type lending struct {
	known map[string]api.AccountUse
	rest  map[string]amounts.List // by consumer
	sold  []api.SoldUnits         // of the rest, sorted, each plan once
}

func (l *lending) add(r *market.Reservation, knows bool) {
	if !knows {
		if l.rest == nil {
			l.rest = map[string]amounts.List{}
		}
		l.rest[r.Consumer] = l.rest[r.Consumer].Plus(r.Usage())
		l.sell(r)
		return
	}
	account := l.known[r.Consumer]
	if account.Commitments == nil {
		account.Commitments = map[string]api.Resources{}
	}
	account.Commitments[r.ID] = r.Usage().Resources()
	if r.Offer != nil {
		if account.Sold == nil {
			account.Sold = map[string]api.SoldUnits{}
		}
		account.Sold[r.ID] = unitsOf(r)
	}
	if l.known == nil {
		l.known = map[string]api.AccountUse{}
	}
	l.known[r.Consumer] = account
}

// sell adds the units of a purchase to the rest. It leaves out an offer for some consumers, which would name them.
func (l *lending) sell(r *market.Reservation) {
	if r.Offer == nil {
		return
	}
	if to := r.Offer.Signed.Offer.VisibleTo; len(to.Clusters)+len(to.Labels) > 0 {
		return
	}
	of := unitsOf(r)
	i, found := slices.BinarySearchFunc(l.sold, of, func(a, b api.SoldUnits) int {
		return cmp.Or(cmp.Compare(a.Offer, b.Offer), cmp.Compare(a.Plan, b.Plan))
	})
	if !found {
		l.sold = slices.Insert(l.sold, i, of)
		return
	}
	l.sold[i].Units = min(l.sold[i].Units+of.Units, api.MaxUnits) // no plan has more
}

func unitsOf(r *market.Reservation) api.SoldUnits {
	return api.SoldUnits{Offer: r.Offer.Signed.Name, Plan: r.Sale.Plan, Units: r.Units()}
}

// report returns a pool with these accounts and this rest. An account takes the larger of what is reserved and
// what is used. What a consumer uses counts for the rest first, so that the sums are those of the whole account.
func (l *lending) report(pool api.Pool, all bool) api.Pool {
	inUse, accounts, shared := pool.Accounts, map[string]api.AccountUse{}, parse(pool.Shared)
	var reserved, used amounts.List
	for consumer, account := range inUse {
		use := parse(account.Used)
		if known, ok := l.known[consumer]; !ok && !all {
			reserved, used = reserved.Plus(use.Only(shared).Beyond(l.rest[consumer])), used.Plus(use)
		} else {
			known.Used = use.Beyond(l.rest[consumer]).Resources()
			accounts[consumer], used = known, used.Plus(use.Min(l.rest[consumer]))
		}
	}
	for consumer, account := range l.known {
		if _, ok := inUse[consumer]; !ok {
			accounts[consumer] = account
		}
	}
	for _, rest := range l.rest {
		reserved = reserved.Plus(rest)
	}
	pool.Accounts = accounts
	if reserved, used = reserved.Beyond(nil), used.Beyond(nil); len(reserved)+len(used)+len(l.sold) > 0 {
		pool.Elsewhere = &api.Elsewhere{Reserved: reserved.Resources(), Used: used.Resources(), Sold: l.sold}
	}
	return pool
}

// parse returns amounts that the inventory measured, which are valid.
func parse(r api.Resources) amounts.List {
	list, _ := amounts.ParseCapacity("", r)
	return list
}
