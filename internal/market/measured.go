package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Measured is an advertisement in the market's own terms. It is immutable.
type Measured struct {
	Sequence api.Sequence
	// Terms are nil when the cluster shares nothing.
	Terms *Terms
	Pools map[string]MeasuredPool

	// renews is the measurement of which it repeats all but the sequence, until it has taken its place.
	renews *Measured
}

// Terms are a provider's terms, with amounts in the market's terms.
type Terms struct {
	api.Terms
	MaxPerReservation, MaxPerConsumer Amounts
}

// TrustsLegacy reports whether the cluster with this card accepts what a broker signs in the name of a legacy
// cluster, which has no key of its own. Legacy clusters accept each other. t may be nil.
func (t *Terms) TrustsLegacy(card *api.Card) bool {
	return card.Legacy || t != nil && t.Trust == api.TrustLegacy
}

// MeasuredPool is what a provider measured of one pool.
type MeasuredPool struct {
	Capacity, Allocatable, Allocated, Shared Amounts
	// Offered is min(shared, allocatable - allocated), for what is shared.
	Offered Amounts
	// Accounts are shared by measurements in which they are the same.
	Accounts map[string]*MeasuredAccount
	// Shapes are what its nodes have free; empty where it does not say.
	Shapes []Shape `json:",omitempty"`
}

// MeasuredAccount is what a provider says of one consumer's account.
type MeasuredAccount struct {
	Commitments map[string]Amounts
	Used        Amounts
	// Sold are the units of plans that commitments are, by ID.
	Sold map[string]Units
}

// Units are units of a plan.
type Units struct {
	Of    plan
	Units int64
}

const (
	maxPools = 16
	// maxAccounts is of all pools together.
	maxAccounts = 10_000
	// maxSold is of how many different plans the commitments may be.
	maxSold = api.MaxOffers * api.MaxPlans
	// maxMeasured is about how many bytes of memory the accounts of an advertisement may take (see
	// footprint): those of 10,000 reservations of a few resources take 6 MiB.
	maxMeasured = 8 << 20
)

// Measure takes in an advertisement. Errors: Invalid with the field.
func Measure(m api.Measurement) (*Measured, error) {
	if m.Sequence.Number < 1 || m.Sequence.Incarnation < 1 {
		return nil, api.Invalid("sequence", "incarnation and number start at 1").Fix("count from 1, and up")
	}
	if len(m.Pools) > maxPools {
		return nil, api.Invalid("pools", "%d pools", len(m.Pools)).Fix("advertise at most %d", maxPools)
	}
	terms, err := MeasureTerms(m.Terms)
	if err != nil {
		return nil, err
	}
	out := &Measured{Sequence: m.Sequence, Terms: terms, Pools: make(map[string]MeasuredPool, len(m.Pools))}
	for _, name := range slices.Sorted(maps.Keys(m.Pools)) {
		if err := validName("pools", name); err != nil {
			return nil, err
		}
		if out.Pools[name], err = measurePool("pools."+name, m.Pools[name]); err != nil {
			return nil, err
		}
	}
	if err := out.bounded(); err != nil {
		return nil, err
	}
	return out, nil
}

// MeasureTerms takes in terms; nil stays nil. Errors: Invalid with the field.
func MeasureTerms(t *api.Terms) (*Terms, error) {
	if t == nil {
		return nil, nil
	}
	if err := checkApproval("terms.approveWithin", t.ApproveWithin); err != nil {
		return nil, err
	}
	if !slices.Contains([]api.TrustLevel{"", api.TrustTofu, api.TrustPinned, api.TrustLegacy}, t.Trust) {
		return nil, api.Invalid("terms.trust", "%.40q is no trust", string(t.Trust)).Fix("say tofu, pinned or legacy")
	}
	perReservation, err := ParseCapacity("terms.maxPerReservation", t.MaxPerReservation)
	if err != nil {
		return nil, err
	}
	perConsumer, err := ParseCapacity("terms.maxPerConsumer", t.MaxPerConsumer)
	if err != nil {
		return nil, err
	}
	return &Terms{Terms: *t, MaxPerReservation: perReservation, MaxPerConsumer: perConsumer}, nil
}

// Refuses says, in words, why the terms refuse a reservation of this size when the
// consumer already has that much; empty if they do not.
func (t *Terms) Refuses(size, already Amounts) string {
	for _, limit := range t.MaxPerReservation {
		if v := size.Of(limit.Resource); v > limit.Value {
			return "more " + limit.Resource + " than one reservation may take here"
		}
	}
	for _, limit := range t.MaxPerConsumer {
		if size.Of(limit.Resource) > 0 && size.Of(limit.Resource)+already.Of(limit.Resource) > limit.Value {
			return "more " + limit.Resource + " than one consumer may take here"
		}
	}
	return ""
}

func measurePool(field string, p api.Pool) (MeasuredPool, error) {
	accounts := make(map[string]*api.AccountUse, len(p.Accounts))
	for consumer, a := range p.Accounts {
		accounts[consumer] = &a
	}
	return MeasuredPool{}.change(field, api.PoolDelta{
		Capacity: p.Capacity, Allocatable: p.Allocatable, Allocated: p.Allocated, Shared: p.Shared, Accounts: accounts,
		Shapes: p.Shapes,
	})
}

// change replaces the parts of a pool that the delta names.
func (p MeasuredPool) change(field string, d api.PoolDelta) (MeasuredPool, error) {
	for _, part := range []struct {
		name string
		from api.Resources
		to   *Amounts
	}{
		{"capacity", d.Capacity, &p.Capacity}, {"allocatable", d.Allocatable, &p.Allocatable},
		{"allocated", d.Allocated, &p.Allocated}, {"shared", d.Shared, &p.Shared},
	} {
		if part.from == nil {
			continue
		}
		amounts, err := ParseCapacity(field+"."+part.name, part.from)
		if err != nil {
			return p, err
		}
		*part.to = amounts
	}
	if d.Shapes != nil {
		var err error
		if p.Shapes, err = measureShapes(field+".shapes", d.Shapes); err != nil {
			return p, err
		}
	}
	p.Offered = make(Amounts, len(p.Shared))
	for i, shared := range p.Shared {
		free := p.Allocatable.Of(shared.Resource) - p.Allocated.Of(shared.Resource)
		p.Offered[i] = Amount{shared.Resource, min(shared.Value, free)}
	}
	if len(d.Accounts) == 0 {
		return p, nil
	}
	p.Accounts = maps.Clone(p.Accounts)
	if p.Accounts == nil {
		p.Accounts = make(map[string]*MeasuredAccount, len(d.Accounts))
	}
	for _, consumer := range slices.Sorted(maps.Keys(d.Accounts)) {
		if d.Accounts[consumer] == nil {
			delete(p.Accounts, consumer)
			continue
		}
		if err := validName(field+".accounts", consumer); err != nil {
			return p, err
		}
		account, err := measureAccount(field+".accounts."+consumer, *d.Accounts[consumer])
		if err != nil {
			return p, err
		}
		p.Accounts[consumer] = account
	}
	return p, p.bounded(field + ".accounts")
}

func measureAccount(field string, a api.AccountUse) (out *MeasuredAccount, err error) {
	out = &MeasuredAccount{}
	if out.Used, err = ParseCapacity(field+".used", a.Used); err != nil {
		return out, err
	}
	if len(a.Sold) > len(a.Commitments) {
		return out, api.Invalid(field+".sold", "more is sold than there are commitments").Fix("list what each is")
	}
	for id, s := range a.Sold {
		for _, name := range []string{s.Offer, s.Plan} {
			if err := validName(field+".sold."+id, name); err != nil {
				return out, err
			}
		}
		if s.Units < 0 || s.Units > maxUnits {
			return out, api.Invalid(field+".sold."+id, "%d units", s.Units).Fix("give 0 to %d", int64(maxUnits))
		}
		if out.Sold == nil {
			out.Sold = make(map[string]Units, len(a.Sold))
		}
		out.Sold[id] = Units{plan{s.Offer, s.Plan}, s.Units}
	}
	out.Commitments = make(map[string]Amounts, len(a.Commitments))
	for _, id := range slices.Sorted(maps.Keys(a.Commitments)) {
		if err := validName(field+".commitments", id); err != nil {
			return out, err
		}
		if out.Commitments[id], err = ParseCapacity(field+".commitments."+id, a.Commitments[id]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// bounded refuses more than a market has to look through and to keep for one advertisement.
func (m *Measured) bounded() error {
	accounts, commitments, bytes, sold := 0, 0, 0, map[plan]struct{}{}
	for _, p := range m.Pools {
		accounts += len(p.Accounts)
		for consumer, a := range p.Accounts {
			commitments += len(a.Commitments)
			bytes += a.footprint() + len(consumer)
			for _, u := range a.Sold {
				sold[u.Of] = struct{}{}
			}
		}
	}
	switch {
	case accounts > maxAccounts:
		return api.Invalid("pools", "%d accounts", accounts).Fix("advertise at most %d in all pools together", maxAccounts)
	case len(sold) > maxSold:
		return api.Invalid("pools", "commitments of %d different plans", len(sold)).
			Fix("a seller has at most %d plans", maxSold)
	case bytes > maxMeasured:
		return api.Invalid("pools", "%d accounts with %d commitments take about %d bytes of memory", accounts,
			commitments, bytes).
			Fix("advertise what takes at most %d: release or evict reservations", maxMeasured)
	}
	return nil
}

// Size is about how much an advertisement has a market look through: its accounts and commitments.
// Nil has none.
func (m *Measured) Size() (n int) {
	if m == nil {
		return 0
	}
	for _, p := range m.Pools {
		n += len(p.Accounts)
		for _, a := range p.Accounts {
			n += len(a.Commitments)
		}
	}
	return n
}

// bounded refuses accounts whose sum could overflow what is reckoned from it.
func (p MeasuredPool) bounded(field string) error {
	var sum Amounts
	add := func(a Amounts) (ok bool) {
		sum = sum.Plus(a)
		return len(sum) <= maxResources && !slices.ContainsFunc(sum, func(x Amount) bool { return x.Value > maxAmount })
	}
	for _, a := range p.Accounts {
		ok := add(a.Used)
		for _, size := range a.Commitments {
			ok = ok && add(size)
		}
		if !ok {
			return api.Invalid(field, "they add up to more than any cluster has, or name more than %d resources", maxResources).
				Fix("advertise what is really there")
		}
	}
	return nil
}

// Change returns the measurement with a delta applied; parts that it does not
// name are shared with m. Errors: StaleAdvertisement when the delta is based on
// another measurement (or m is nil), Invalid with the field.
func (m *Measured) Change(d api.MeasurementDelta) (*Measured, error) {
	if m == nil || m.Sequence != d.Base {
		return nil, api.Errorf(api.CodeStaleAdvertisement,
			"the delta is based on advertisement %d.%d, which is not the newest here", d.Base.Incarnation, d.Base.Number).
			At("base").Fix("send the whole advertisement")
	}
	next := &Measured{Sequence: d.Sequence, Terms: m.Terms, Pools: m.Pools}
	if len(d.Pools) == 0 {
		next.renews = m
		return next, nil
	}
	next.Pools = maps.Clone(m.Pools)
	accountsChange := false
	for name, change := range d.Pools {
		if change == nil {
			delete(next.Pools, name)
			continue
		}
		accountsChange = accountsChange || len(change.Accounts) > 0
		known, ok := m.Pools[name]
		if !ok {
			if err := validName("pools", name); err != nil {
				return nil, err
			}
		}
		pool, err := known.change("pools."+name, *change)
		if err != nil {
			return nil, err
		}
		next.Pools[name] = pool
	}
	if len(next.Pools) > maxPools {
		return nil, api.Invalid("pools", "%d pools", len(next.Pools)).Fix("advertise at most %d", maxPools)
	}
	if accountsChange {
		if err := next.bounded(); err != nil {
			return nil, err
		}
	}
	return next, nil
}
