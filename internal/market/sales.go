package market

import "maps"

// sales are how many units of the plans of one seller are sold. As with accounts, what our own books hold and what the seller lists
// are united by the reservation's ID, and the larger counts: so it does not matter who hears first of a sale that was made elsewhere.
type sales struct {
	held, listed map[string]Units
	units        map[plan]int64
	shown        bool // a view reads units: it is replaced before it is written again
}

// show is how many units of each plan are sold. What it returns does not change.
func (s *sales) show() map[plan]int64 {
	s.shown = true
	return s.units
}

// hold makes u what our own books say of a reservation; none forgets it.
func (s *sales) hold(id string, u Units) {
	if s.held == nil {
		s.held = map[string]Units{}
	}
	s.put(s.held, s.listed, id, u)
}

// list makes a measurement what the seller says.
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

// of is how many units a reservation takes.
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

// add counts what the two sides say of one reservation, once.
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

// forgetUnsold forgets the offer of a record that was, if it was kept for that alone: a hold that moves on may leave it for another.
func (s *State) forgetUnsold(old *Reservation) {
	if old == nil || old.Sale == nil || s.madeFrom[old.Sale.Offer] > 0 {
		return
	}
	if o := s.offers[old.Sale.Offer]; o != nil && !o.OnSale {
		s.forgetOffer(o.Digest)
	}
}
