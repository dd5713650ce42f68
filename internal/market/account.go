package market

import "github.com/bourse-dev/bourse/internal/amounts"

// account is what one consumer takes of one pool of a provider:
//
//	total = max(Σ over the union by ID of max(held, listed), used)
//
// held is the size in our own records (see [State.held]), listed the size in the provider's
// advertisement. The union by ID counts a reservation once. The larger size counts, so a lag on either
// side errs on the safe side. A listed reservation counts until the provider no longer lists it.
//
// union is updated with each change. [State.Imbalance] compares it with a fresh sum.
type account struct {
	holds  int64                   // reservations in our own records
	listed map[string]amounts.List // nil until something is
	union  amounts.List
	used   amounts.List
}

func (a *account) total() amounts.List {
	if len(a.used) == 0 {
		return a.union
	}
	return a.union.Max(a.used)
}

// hold adds a reservation in our own records (sign 1), or removes it (-1).
func (a *account) hold(id string, size amounts.List, sign int64) {
	if a.holds += sign; sign > 0 {
		a.change(nil, size, a.listed[id])
	} else {
		a.change(size, nil, a.listed[id])
	}
}

// list replaces what the provider lists for the account. held returns a reservation's size in our
// own records.
func (a *account) list(listed map[string]amounts.List, held func(id string) amounts.List) {
	for id, before := range a.listed {
		if _, still := listed[id]; !still {
			a.change(before, nil, held(id))
			delete(a.listed, id)
		}
	}
	if a.listed == nil && len(listed) > 0 {
		a.listed = make(map[string]amounts.List, len(listed))
	}
	for id, size := range listed {
		before := a.listed[id]
		if before.Equal(size) {
			continue
		}
		a.change(before, size, held(id))
		if size == nil {
			delete(a.listed, id)
		} else {
			a.listed[id] = size
		}
	}
}

// change replaces the size of a reservation on one side. other is the size on the other side.
func (a *account) change(before, size, other amounts.List) {
	a.union = a.union.Swap(larger(before, other), larger(size, other))
}

// larger is Max if one of the two is usually nil.
func larger(a, b amounts.List) amounts.List {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	return a.Max(b)
}

func (a *account) empty() bool {
	return a.holds == 0 && len(a.listed) == 0 && len(a.used) == 0
}

// poolState is one pool of a provider: its measurement, and the account of each consumer.
type poolState struct {
	measured MeasuredPool
	accounts map[string]*account
	// reserved is the sum of the accounts' totals.
	reserved amounts.List
	// used is the sum of the accounts' use.
	used amounts.List
	// tenants is how many accounts have any amount.
	tenants int
	// owners counts, by consumer, the reservations that give it the whole pool.
	owners map[string]int64
}

// change changes a consumer's account and updates the sums.
func (b *poolState) change(consumer string, do func(*account)) {
	a := b.accounts[consumer]
	if a == nil {
		a = &account{}
		b.accounts[consumer] = a
	}
	before, used := a.total(), a.used
	do(a)
	after := a.total()
	b.reserved, b.used = b.reserved.Swap(before, after), b.used.Swap(used, a.used)
	if has, had := after.Positive(), before.Positive(); has && !had {
		b.tenants++
	} else if had && !has {
		b.tenants--
	}
	if a.empty() {
		delete(b.accounts, consumer)
	}
}

// unfilled is what is reserved and not used yet. It may still be placed on any node.
func (b *poolState) unfilled() amounts.List { return b.reserved.Minus(b.used) }

// available = min(shared, allocatable - allocated) - Σ accounts. Negative: the provider is Overcommitted.
func (b *poolState) available() amounts.List { return b.measured.Offered.Minus(b.reserved) }

// findShortage returns the first resource that is not available as a consumer needs, and how much is missing.
// A customer of a hub may be one of its providers. Its pods do not run on its own machines, so all that
// is reserved or allocated must fit on those of the others, wherever other pods run. A sale leaves out
// what nobody signed for.
func (b *poolState) findShortage(consumer string, need amounts.List, sale bool) (name string, missing int64) {
	for _, n := range need {
		offered := b.measured.Offered.Of(n.Resource)
		if sale {
			offered -= b.measured.Unverified.Of(n.Resource)
		}
		for source, gives := range b.measured.Sources {
			if source == consumer || b.accounts[source] != nil && b.accounts[source].total().Positive() {
				others := b.measured.Allocatable.Of(n.Resource) - gives.Of(n.Resource)
				offered = min(offered, others-b.measured.Allocated.Of(n.Resource))
			}
		}
		if left := offered - b.reserved.Of(n.Resource); left < n.Value {
			return n.Resource, n.Value - left
		}
	}
	return "", 0
}
