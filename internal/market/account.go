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
	held, listed map[string]Amounts
	union        Amounts
	used         Amounts
}

func newAccount() *account {
	return &account{held: map[string]Amounts{}, listed: map[string]Amounts{}}
}

func (a *account) total() Amounts {
	if len(a.used) == 0 {
		return a.union
	}
	return a.union.Max(a.used)
}

// size is what a reservation takes: the larger of what the two sides say.
func (a *account) size(id string) Amounts {
	held, listed := a.held[id], a.listed[id]
	if listed == nil {
		return held
	}
	return held.Max(listed)
}

// hold makes size what the books say of a reservation; nil forgets it.
func (a *account) hold(id string, size Amounts) { a.put(a.held, id, size) }

// list makes the measurement what the provider says of the account. Use of what it does not
// offer takes nothing from anyone.
func (a *account) list(m *MeasuredAccount, offered Amounts) {
	for id := range a.listed {
		if _, still := m.Commitments[id]; !still {
			a.put(a.listed, id, nil)
		}
	}
	for id, size := range m.Commitments {
		if !a.listed[id].Equal(size) {
			a.put(a.listed, id, size)
		}
	}
	a.used = m.Used.Only(offered)
}

func (a *account) put(side map[string]Amounts, id string, size Amounts) {
	before := a.size(id)
	if size == nil {
		delete(side, id)
	} else {
		side[id] = size
	}
	a.union = a.union.Swap(before, a.size(id))
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
}

// change does something to a consumer's account and keeps the sum right.
func (b *book) change(consumer string, do func(*account)) {
	a := b.accounts[consumer]
	if a == nil {
		a = newAccount()
		b.accounts[consumer] = a
	}
	before := a.total()
	do(a)
	b.reserved = b.reserved.Swap(before, a.total())
	if a.empty() {
		delete(b.accounts, consumer)
	}
}

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
