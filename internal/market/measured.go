package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Measured is an advertisement with amounts in the market's terms. It is immutable.
type Measured struct {
	Sequence api.Sequence
	// Terms are nil if the cluster shares nothing.
	Terms *Terms
	Pools map[string]MeasuredPool
	// Brokers are, in the gate, those at which the cluster shares. Empty: all.
	Brokers []string `json:",omitempty"`

	// renews is the measurement that this one repeats with another sequence, until Observe stores this one.
	renews *Measured
}

// MeasuredPool is a pool in an advertisement.
type MeasuredPool struct {
	Capacity, Allocatable, Allocated, Shared amounts.List
	// Offered is min(shared, allocatable - allocated), for the shared resources.
	Offered amounts.List
	// Accounts that do not change are shared between measurements.
	Accounts map[string]*MeasuredAccount
	// Shapes are the free amounts of its nodes. Empty: unknown.
	Shapes []Shape `json:",omitempty"`
	// Sources are, in the gate of a hub, the parts of Allocatable by the provider behind them.
	Sources map[string]amounts.List `json:",omitempty"`
	// Unverified is, in the gate of a hub, the part of Allocatable that nobody signed for.
	Unverified amounts.List `json:",omitempty"`
}

// MeasuredAccount is a consumer's account in an advertisement.
type MeasuredAccount struct {
	Commitments map[string]amounts.List
	Used        amounts.List
	// Sold are the units of the commitments that are purchases, by ID.
	Sold map[string]Units
}

// Units are units of a plan.
type Units struct {
	Of    plan
	Units int64
}

const (
	maxPools = 16
	// maxAccounts is for all pools together.
	maxAccounts = 10_000
	// maxSold is the number of different plans of the commitments.
	maxSold = api.MaxOffers * api.MaxPlans
	// maxMeasured is about how many bytes of memory the accounts of an advertisement may take (see
	// footprint). 10,000 reservations of a few resources take 6 MiB.
	maxMeasured = 8 << 20
)

// Measure checks and converts an advertisement. Errors: Invalid with the field.
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
	out := &Measured{Sequence: m.Sequence, Terms: terms, Brokers: m.Brokers,
		Pools: make(map[string]MeasuredPool, len(m.Pools))}
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

func measurePool(field string, p api.Pool) (MeasuredPool, error) {
	accounts := make(map[string]*api.AccountUse, len(p.Accounts))
	for consumer, a := range p.Accounts {
		accounts[consumer] = &a
	}
	var sources map[string]amounts.List
	for source, gives := range p.Sources {
		list, err := amounts.ParseCapacity(field+".sources", gives)
		if err != nil {
			return MeasuredPool{}, err
		}
		if sources == nil {
			sources = map[string]amounts.List{}
		}
		sources[source] = list
	}
	unverified, err := amounts.ParseCapacity(field+".unverified", p.Unverified)
	if err != nil {
		return MeasuredPool{}, err
	}
	return MeasuredPool{Sources: sources, Unverified: unverified}.change(field, api.PoolDelta{
		Capacity: p.Capacity, Allocatable: p.Allocatable, Allocated: p.Allocated, Shared: p.Shared, Accounts: accounts,
		Shapes: p.Shapes, Elsewhere: p.Elsewhere,
	})
}

// nobody is the consumer of the account that has what a cluster lends without the broker. No cluster has
// this name, and no reservation has the IDs in this account.
const nobody = ""

func measureElsewhere(field string, e api.Elsewhere) (*MeasuredAccount, error) {
	out, err := measureAccount(field, api.AccountUse{Used: e.Used})
	if err != nil {
		return nil, err
	}
	reserved, err := amounts.ParseCapacity(field+".reserved", e.Reserved)
	if err != nil {
		return nil, err
	}
	if len(reserved) > 0 {
		out.Commitments[nobody] = reserved
	}
	for _, s := range e.Sold {
		id := field + "/" + s.Offer + "/" + s.Plan
		if err := out.sell(field+".sold", id, s); err != nil {
			return nil, err
		}
		out.Commitments[id] = amounts.List{}
	}
	return out, nil
}

// sell adds sold units to an account. Errors: Invalid at field.
func (a *MeasuredAccount) sell(field, id string, s api.SoldUnits) error {
	for _, name := range []string{s.Offer, s.Plan} {
		if err := validName(field, name); err != nil {
			return err
		}
	}
	if s.Units < 0 || s.Units > api.MaxUnits {
		return api.Invalid(field, "%d units", s.Units).Fix("give 0 to %d", api.MaxUnits)
	}
	if a.Sold == nil {
		a.Sold = map[string]Units{}
	}
	a.Sold[id] = Units{plan{s.Offer, s.Plan}, s.Units}
	return nil
}

func measureAccount(field string, a api.AccountUse) (out *MeasuredAccount, err error) {
	out = &MeasuredAccount{}
	if out.Used, err = amounts.ParseCapacity(field+".used", a.Used); err != nil {
		return out, err
	}
	if len(a.Sold) > len(a.Commitments) {
		return out, api.Invalid(field+".sold", "more is sold than there are commitments").Fix("list what each is")
	}
	for id, s := range a.Sold {
		if err := out.sell(field+".sold."+id, id, s); err != nil {
			return out, err
		}
	}
	out.Commitments = make(map[string]amounts.List, len(a.Commitments))
	for _, id := range slices.Sorted(maps.Keys(a.Commitments)) {
		if err := validName(field+".commitments", id); err != nil {
			return out, err
		}
		if out.Commitments[id], err = amounts.ParseCapacity(field+".commitments."+id, a.Commitments[id]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// bounded refuses an advertisement that takes a market too much work or memory.
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

// Size returns the number of accounts and commitments of an advertisement, which is about the work that it
// makes. Nil has none.
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

// bounded refuses accounts whose sum could overflow later.
func (p MeasuredPool) bounded(field string) error {
	var sum amounts.List
	add := func(a amounts.List) (ok bool) {
		sum = sum.Plus(a)
		tooLarge := func(x amounts.Amount) bool { return x.Value > amounts.Max }
		return len(sum) <= amounts.MaxResources && !slices.ContainsFunc(sum, tooLarge)
	}
	for _, a := range p.Accounts {
		ok := add(a.Used)
		for _, size := range a.Commitments {
			ok = ok && add(size)
		}
		if !ok {
			return api.Invalid(field, "they add up to more than any cluster has, or name more than %d resources",
				amounts.MaxResources).
				Fix("advertise the measured amounts")
		}
	}
	return nil
}
