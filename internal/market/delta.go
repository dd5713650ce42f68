package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// change replaces the parts of a pool that the delta names.
func (p MeasuredPool) change(field string, d api.PoolDelta) (MeasuredPool, error) {
	for _, part := range []struct {
		name string
		from api.Resources
		to   *amounts.List
	}{
		{"capacity", d.Capacity, &p.Capacity}, {"allocatable", d.Allocatable, &p.Allocatable},
		{"allocated", d.Allocated, &p.Allocated}, {"shared", d.Shared, &p.Shared},
	} {
		if part.from == nil {
			continue
		}
		list, err := amounts.ParseCapacity(field+"."+part.name, part.from)
		if err != nil {
			return p, err
		}
		*part.to = list
	}
	if d.Shapes != nil {
		var err error
		if p.Shapes, err = measureShapes(field+".shapes", d.Shapes); err != nil {
			return p, err
		}
	}
	p.Offered = make(amounts.List, len(p.Shared))
	for i, shared := range p.Shared {
		free := p.Allocatable.Of(shared.Resource) - p.Allocated.Of(shared.Resource)
		p.Offered[i] = amounts.Amount{Resource: shared.Resource, Value: min(shared.Value, free)}
	}
	if len(d.Accounts) == 0 && d.Elsewhere == nil {
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
	if d.Elsewhere != nil {
		rest, err := measureElsewhere(field+".elsewhere", *d.Elsewhere)
		if err != nil {
			return p, err
		}
		if p.Accounts[nobody] = rest; len(rest.Commitments)+len(rest.Used) == 0 {
			delete(p.Accounts, nobody)
		}
	}
	return p, p.bounded(field + ".accounts")
}

// Change returns the measurement with a delta applied. It shares the other parts with m. Errors:
// StaleAdvertisement if the delta is based on another measurement, or m is nil; Invalid with the field.
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
		accountsChange = accountsChange || len(change.Accounts) > 0 || change.Elsewhere != nil
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
