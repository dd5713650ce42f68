package market

// account is what one consumer takes of one pool of a provider:
//
//	total = max(Σ over the union by ID of max(held, listed), used)
//
// held is what our own books say of a reservation (see [State.held]), listed what the provider
// says it has committed. Because the union is by ID, hearing of the same reservation
// twice counts once; because the larger counts, a lag on either side only errs
// low; and because a listed one counts until the provider no longer lists it,
// capacity comes back when the provider says so.
//
// union is kept as reservations come and go; [State.Imbalance] compares it with
// the same recomputed.
type account struct {
	holds  int                // reservations that our own books hold
	listed map[string]Amounts // nil until something is
	union  Amounts
	used   Amounts
}

func (a *account) total() Amounts {
	if len(a.used) == 0 {
		return a.union
	}
	return a.union.Max(a.used)
}

// hold makes size what our books say of a reservation, in the place of before; nil is nothing.
func (a *account) hold(id string, before, size Amounts) {
	if before != nil {
		a.holds--
	}
	if size != nil {
		a.holds++
	}
	a.change(before, size, a.listed[id])
}

// list makes the measurement what the provider says of the account, of whose reservations held is what our books
// say. Use of what it does not offer takes nothing from anyone.
func (a *account) list(m *MeasuredAccount, offered Amounts, held func(id string) Amounts) {
	for id, before := range a.listed {
		if _, still := m.Commitments[id]; !still {
			a.change(before, nil, held(id))
			delete(a.listed, id)
		}
	}
	if a.listed == nil && len(m.Commitments) > 0 {
		a.listed = make(map[string]Amounts, len(m.Commitments))
	}
	for id, size := range m.Commitments {
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
	a.used = m.Used.Only(offered)
}

// change makes size what one side says of a reservation, in the place of before. It takes the larger of that and what the other
// side says.
func (a *account) change(before, size, other Amounts) {
	a.union = a.union.Swap(before.or(other), size.or(other))
}

// or is the larger of two, where one of them is mostly missing.
func (a Amounts) or(b Amounts) Amounts {
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

// book is one pool of a provider: what it measured, and who takes how much of it.
type book struct {
	measured MeasuredPool
	accounts map[string]*account
	// reserved is the sum of the accounts' totals.
	reserved Amounts
	// used is the sum of what they use.
	used Amounts
	// tenants is how many accounts have something.
	tenants int
}

// change does something to a consumer's account and keeps the sum right.
func (b *book) change(consumer string, do func(*account)) {
	a := b.accounts[consumer]
	if a == nil {
		a = &account{}
		b.accounts[consumer] = a
	}
	before, used := a.total(), a.used
	do(a)
	after := a.total()
	b.reserved, b.used = b.reserved.Swap(before, after), b.used.Swap(used, a.used)
	if has, had := after.some(), before.some(); has && !had {
		b.tenants++
	} else if had && !has {
		b.tenants--
	}
	if a.empty() {
		delete(b.accounts, consumer)
	}
}

// unfilled is what is reserved and not yet used: it can still end up on any node.
func (b *book) unfilled() Amounts { return b.reserved.Minus(b.used) }

// available = min(shared, allocatable - allocated) - Σ accounts. It may be negative, above all
// for what is reserved and no longer shared: the provider is Overcommitted.
func (b *book) available() Amounts { return b.measured.Offered.Minus(b.reserved) }

// short is the first resource of which less is available than needed, and how much is missing.
func (b *book) short(need Amounts) (name string, missing int64) {
	for _, n := range need {
		if left := b.measured.Offered.Of(n.Resource) - b.reserved.Of(n.Resource); left < n.Value {
			return n.Resource, n.Value - left
		}
	}
	return "", 0
}
