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
}

// Terms are a provider's terms, with amounts in the market's terms.
type Terms struct {
	api.Terms
	MaxPerReservation, MaxPerConsumer Amounts
}

// MeasuredPool is what a provider measured of one pool.
type MeasuredPool struct {
	Capacity, Allocatable, Allocated, Shared Amounts
	// Offered is min(shared, allocatable - allocated), for what is shared.
	Offered  Amounts
	Accounts map[string]MeasuredAccount
}

// MeasuredAccount is what a provider says of one consumer's account.
type MeasuredAccount struct {
	Commitments map[string]Amounts
	Used        Amounts
}

const (
	maxPools       = 16
	maxAccounts    = 10_000
	maxCommitments = 100_000
)

// Measure takes in an advertisement. Errors: Invalid with the field.
func Measure(m api.Measurement) (*Measured, error) {
	if m.Sequence.Number < 1 || m.Sequence.Incarnation < 1 {
		return nil, api.Invalid("sequence", "incarnation and number start at 1")
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
	return out, nil
}

// MeasureTerms takes in terms; nil stays nil. Errors: Invalid with the field.
func MeasureTerms(t *api.Terms) (*Terms, error) {
	if t == nil {
		return nil, nil
	}
	perReservation, err := Have("terms.maxPerReservation", t.MaxPerReservation)
	if err != nil {
		return nil, err
	}
	perConsumer, err := Have("terms.maxPerConsumer", t.MaxPerConsumer)
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

func measurePool(field string, p api.Pool) (out MeasuredPool, err error) {
	for _, part := range []struct {
		name string
		from api.Resources
		to   *Amounts
	}{
		{"capacity", p.Capacity, &out.Capacity}, {"allocatable", p.Allocatable, &out.Allocatable},
		{"allocated", p.Allocated, &out.Allocated}, {"shared", p.Shared, &out.Shared},
	} {
		if *part.to, err = Have(field+"."+part.name, part.from); err != nil {
			return out, err
		}
	}
	for _, shared := range out.Shared {
		free := out.Allocatable.Of(shared.Resource) - out.Allocated.Of(shared.Resource)
		out.Offered = append(out.Offered, Amount{shared.Resource, min(shared.Value, free)})
	}
	if len(p.Accounts) > maxAccounts {
		return out, api.Invalid(field+".accounts", "%d accounts", len(p.Accounts)).Fix("advertise at most %d", maxAccounts)
	}
	var sum Amounts
	total := 0
	out.Accounts = make(map[string]MeasuredAccount, len(p.Accounts))
	for _, consumer := range slices.Sorted(maps.Keys(p.Accounts)) {
		at := field + ".accounts." + consumer
		if err := validName(field+".accounts", consumer); err != nil {
			return out, err
		}
		if total += len(p.Accounts[consumer].Commitments); total > maxCommitments {
			return out, api.Invalid(at, "more than %d commitments", maxCommitments)
		}
		account, err := measureAccount(at, p.Accounts[consumer], &sum)
		if err != nil {
			return out, err
		}
		out.Accounts[consumer] = account
	}
	return out, nil
}

func measureAccount(field string, a api.AccountUse, sum *Amounts) (out MeasuredAccount, err error) {
	if out.Used, err = Have(field+".used", a.Used); err != nil {
		return out, err
	}
	out.Commitments = make(map[string]Amounts, len(a.Commitments))
	for _, id := range slices.Sorted(maps.Keys(a.Commitments)) {
		if err := validName(field+".commitments", id); err != nil {
			return out, err
		}
		size, err := Have(field+".commitments."+id, a.Commitments[id])
		if err != nil {
			return out, err
		}
		out.Commitments[id] = size
		*sum = sum.Plus(size)
	}
	*sum = sum.Plus(out.Used)
	if slices.ContainsFunc(*sum, func(x Amount) bool { return x.Value > maxAmount }) {
		return out, api.Invalid(field, "the commitments add up to more than any cluster has")
	}
	return out, nil
}
