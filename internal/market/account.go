package market

// account is what one consumer takes of one pool of a provider:
//
//	total = max(Σ over the union by ID of max(held, listed), used)
//
// held is what our own books say of a reservation, listed what the provider says
// it has committed. Because the union is by ID, hearing of the same reservation
// twice counts once; because the larger counts, a lag on either side only errs
// low; and because a listed one counts until the provider no longer lists it,
// capacity comes back when the provider says so.
//
// union is kept as reservations come and go; [State.Imbalance] compares it with
// the same recomputed.
type account struct {
	held, listed map[string]Amounts // listed is nil until something is
	union        Amounts
	used         Amounts
}

func (a *account) total() Amounts {
	if len(a.used) == 0 {
		return a.union
	}
	return a.union.Max(a.used)
}

// hold makes size what the books say of a reservation; nil forgets it.
func (a *account) hold(id string, size Amounts) { a.put(a.held, a.listed, id, size) }

// list makes the measurement what the provider says of the account. Use of what it does not
// offer takes nothing from anyone.
func (a *account) list(m *MeasuredAccount, offered Amounts) {
	for id := range a.listed {
		if _, still := m.Commitments[id]; !still {
			a.put(a.listed, a.held, id, nil)
		}
	}
	if a.listed == nil && len(m.Commitments) > 0 {
		a.listed = make(map[string]Amounts, len(m.Commitments))
	}
	for id, size := range m.Commitments {
		if !a.listed[id].Equal(size) {
			a.put(a.listed, a.held, id, size)
		}
	}
	a.used = m.Used.Only(offered)
}

// put makes size what one side says of a reservation. It takes the larger of what the two sides say.
func (a *account) put(side, other map[string]Amounts, id string, size Amounts) {
	before, others := side[id], other[id]
	if size == nil {
		delete(side, id)
	} else {
		side[id] = size
	}
	a.union = a.union.Swap(before.or(others), size.or(others))
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
	return len(a.held) == 0 && len(a.listed) == 0 && len(a.used) == 0
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
		a = &account{held: map[string]Amounts{}}
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
