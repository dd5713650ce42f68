package market

import "maps"

// sales counts the sold units of one seller's plans. As in an account, the union by ID of our own records and
// the seller's list counts, with the larger number of each.
type sales struct {
	held, listed map[string]Units
	units        map[plan]int64
	shown        bool // a view shares units: copy it before a change
}

// show returns the sold units of each plan. The result never changes.
func (s *sales) show() map[plan]int64 {
	s.shown = true
	return s.units
}

// hold replaces the units of a reservation in our own records. The zero value removes it.
func (s *sales) hold(id string, u Units) {
	if s.held == nil {
		s.held = map[string]Units{}
	}
	s.put(s.held, s.listed, id, u)
}

// list replaces the seller's list by that of a measurement.
func (s *sales) list(m *Measured) {
	listed := map[string]Units{}
	for _, pool := range m.Pools {
		for _, account := range pool.Accounts {
			for id, u := range account.Sold {
				if _, counts := account.Commitments[id]; counts {
					listed[id] = u
				}
			}
		}
	}
	if len(listed) == 0 && len(s.listed) == 0 {
		return
	}
	if s.listed == nil {
		s.listed = map[string]Units{}
	}
	for id := range s.listed {
		if _, still := listed[id]; !still {
			s.put(s.listed, s.held, id, Units{})
		}
	}
	for id, u := range listed {
		if s.listed[id] != u {
			s.put(s.listed, s.held, id, u)
		}
	}
}

// of returns how many units a reservation takes.
func (s *sales) of(id string) int64 { return max(s.held[id].Units, s.listed[id].Units) }

func (s *sales) put(side, other map[string]Units, id string, u Units) {
	if s.shown {
		s.units, s.shown = maps.Clone(s.units), false
	}
	if s.units == nil {
		s.units = map[plan]int64{}
	}
	s.add(side[id], other[id], -1)
	if u == (Units{}) {
		delete(side, id)
	} else {
		side[id] = u
	}
	s.add(side[id], other[id], 1)
}

// add adds the larger of the two sides of a reservation, times sign.
func (s *sales) add(a, b Units, sign int64) {
	more := a
	if b.Units > a.Units {
		more = b
	}
	if more.Units == 0 {
		return
	}
	if s.units[more.Of] += sign * more.Units; s.units[more.Of] == 0 {
		delete(s.units, more.Of)
	}
}

// forgetUnsold drops the offer of an old record if only that record needed it: a hold may have moved on.
func (s *State) forgetUnsold(old *Reservation) {
	if old == nil || old.Sale == nil || s.madeFrom[old.Sale.Offer] > 0 {
		return
	}
	if o := s.offers[old.Sale.Offer]; o != nil && !o.OnSale {
		s.forgetOffer(o.Digest)
	}
}
