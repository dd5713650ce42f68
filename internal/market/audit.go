package market

import (
	"maps"

	"github.com/bourse-dev/bourse/internal/amounts"
)

// Imbalance counts the pools whose reserved amounts differ from a fresh sum over all reservations and
// advertisements, and the sellers with another number of sold units. It must be 0.
func (s *State) Imbalance() int { return s.Audit()() }

// Audit collects the records for Imbalance. The returned function computes it, on any goroutine: it
// takes long in a large market.
func (s *State) Audit() func() int {
	kept := make([]audited, len(s.slots))
	for i, p := range s.slots {
		kept[i] = audited{p.cluster, p.measured, make(map[string]amounts.List, len(p.pools)), p.sold.show()}
		for name, b := range p.pools {
			kept[i].reserved[name] = b.reserved
		}
	}
	counting := make([]*Reservation, 0, len(s.reservations))
	for _, r := range s.reservations {
		if r.State.Counts() {
			counting = append(counting, r)
		}
	}
	self := s.Self
	return func() (wrong int) {
		fresh := New(self)
		for _, k := range kept {
			if k.measured != nil {
				fresh.measure(fresh.provider(k.cluster), k.measured)
			}
		}
		for _, r := range counting {
			fresh.updateAccounts(r, 1)
		}
		for _, k := range kept {
			wrong += k.differs(fresh.provider(k.cluster))
		}
		return wrong
	}
}

// audited is a copy of a provider in the state.
type audited struct {
	cluster  string
	measured *Measured
	reserved map[string]amounts.List
	sold     map[plan]int64
}

// differs counts the pools with another account than right, and one more if sold units differ.
func (k audited) differs(right *provider) (wrong int) {
	if !maps.Equal(k.sold, right.sold.show()) {
		wrong++
	}
	for name := range k.reserved {
		right.pool(name)
	}
	for name, b := range right.pools {
		if reserved, kept := k.reserved[name]; !kept || !b.reserved.Equal(reserved) {
			wrong++
		}
	}
	return wrong
}
