package market

import (
	"maps"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
)

// Bought returns the plan of a purchase, nil if the reservation is none, or nil itself.
func (r *Reservation) Bought() *Plan {
	if r == nil || r.Sale == nil || r.Offer == nil {
		return nil
	}
	return r.Offer.Plan(r.Sale.Plan)
}

// Hourly returns what an hour of a reservation costs, in billionths of the unit of a currency. A loan costs 0.
func (r *Reservation) Hourly() (nanos int64, currency string) {
	plan := r.Bought()
	if plan == nil {
		return 0, ""
	}
	return plan.Price.Nanos(r.Units(), money.RatesFor(r.Created.Go(), time.Hour)), plan.Price.Currency
}

// sales counts the sold units of one seller's plans. As in an account, the union by ID of our own records and
// the seller's list counts, with the larger number of each.
type sales struct {
	listed map[string]Units
	units  map[plan]int64
	shown  bool // a view shares units: copy it before a change
}

// show returns the sold units of each plan. The result never changes.
func (s *sales) show() map[plan]int64 {
	s.shown = true
	return s.units
}

// hold adds the units of a reservation in our own records (sign 1), or removes them (-1).
func (s *sales) hold(id string, u Units, sign int64) {
	listed := s.listed[id]
	s.add(listed, -sign)
	s.add(u.larger(listed), sign)
}

// list replaces the seller's list by that of a measurement. held returns the units of a reservation
// in our own records.
func (s *sales) list(m *Measured, held func(id string) Units) {
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
	if maps.Equal(listed, s.listed) {
		return
	}
	for id, u := range s.listed {
		s.add(held(id).larger(u), -1)
		s.add(held(id), 1)
	}
	for id, u := range listed {
		s.add(held(id), -1)
		s.add(held(id).larger(u), 1)
	}
	s.listed = listed
}

// larger returns the larger number of units.
func (u Units) larger(o Units) Units {
	if o.Units > u.Units {
		return o
	}
	return u
}

func (s *sales) add(u Units, sign int64) {
	if u.Units == 0 {
		return
	}
	if s.shown {
		s.units, s.shown = maps.Clone(s.units), false
	}
	if s.units == nil {
		s.units = map[plan]int64{}
	}
	if s.units[u.Of] += sign * u.Units; s.units[u.Of] == 0 {
		delete(s.units, u.Of)
	}
}

// sold returns the units that a reservation takes of its seller's plan.
func (r *Reservation) sold() Units {
	if r == nil || r.Sale == nil || r.Offer == nil || r.Provider != r.Offer.Signed.Seller {
		return Units{}
	}
	return Units{plan{r.Offer.Signed.Name, r.Sale.Plan}, r.Units()}
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

// Units returns how many units of its plan the reservation takes: the larger of the present number and the
// requested one.
func (r *Reservation) Units() int64 {
	if r.Sale == nil {
		return 0
	}
	if c := r.Changing(); c != nil {
		return max(r.Sale.Units, c.Units)
	}
	return r.Sale.Units
}

// countOffer adds to the number of reservations that are from the offer of r, which may be nil.
func (s *State) countOffer(r *Reservation, number int) {
	if r == nil || r.Sale == nil {
		return
	}
	if s.madeFrom[r.Sale.Offer] += number; s.madeFrom[r.Sale.Offer] == 0 {
		delete(s.madeFrom, r.Sale.Offer)
	}
}

// checkStock reports why that many units of a plan cannot be sold now, or nil. has is how many units the same
// reservation has already. Errors: NotFound, Conflict for an offer that has changed, Insufficient.
func (s *State) checkStock(sale *api.Sale, units, has int64, now Time) error {
	if sale == nil {
		return nil
	}
	o := s.offers[sale.Offer]
	if o == nil {
		return api.Errorf(api.CodeNotFound, "no offer %.60q", sale.Offer).At("purchase.offer").FixBy("see", "bourse", "catalog")
	}
	if !o.OnSale {
		return api.Errorf(api.CodeConflict, "offer %s is no longer on sale as it was", o.Key()).At("purchase.digest").
			Fix("read it again: bourse catalog %s", o.Key())
	}
	p := o.Plan(sale.Plan)
	if p == nil {
		return api.Errorf(api.CodeNotFound, "offer %s has no plan %.63q", o.Key(), sale.Plan).At("purchase.plan").
			FixBy("see", "bourse", "catalog", o.Key())
	}
	if err := o.valid(now); err != nil {
		return err
	}
	left := p.Quantity - s.provider(o.Signed.Seller).sold.units[plan{o.Signed.Name, p.Name}] + has
	if p.Quantity > 0 && units > left {
		return api.Errorf(api.CodeInsufficient, "of plan %s/%s %d are left, of %d", o.Key(), p.Name, max(left, 0),
			p.Quantity).Fix("buy fewer, or another plan")
	}
	return nil
}

// valid reports why an offer cannot be bought now, or nil.
func (o *Offer) valid(now Time) error {
	switch t := now.Go(); {
	case o.Signed.Offer.ValidFrom != nil && t.Before(o.Signed.Offer.ValidFrom.Time):
		return api.Errorf(api.CodeConflict, "offer %s is not on sale before %s", o.Key(),
			o.Signed.Offer.ValidFrom.UTC().Format("2006-01-02 15:04 MST"))
	case o.Signed.Offer.ValidUntil != nil && !t.Before(o.Signed.Offer.ValidUntil.Time):
		return api.Errorf(api.CodeConflict, "offer %s was on sale until %s", o.Key(),
			o.Signed.Offer.ValidUntil.UTC().Format("2006-01-02 15:04 MST"))
	}
	return nil
}

// Remaining returns how many units of a plan can be sold now, by its quantity and by the free capacity of its
// pool.
func (l *Listing) Remaining(o *Offer, p *Plan) int64 {
	pool := l.Pool(p.Pool)
	if pool == nil {
		return 0
	}
	left := int64(api.MaxUnits)
	if p.Quantity > 0 {
		left = p.Quantity - l.Sold[plan{o.Signed.Name, p.Name}]
	}
	for _, unit := range p.Size {
		left = min(left, pool.Available.Of(unit.Resource)/unit.Value)
	}
	return max(left, 0)
}

// SoldOf returns how many units of an offer are sold, by plan.
func (l *Listing) SoldOf(o *Offer) (out map[string]int64) {
	for of, units := range l.Sold {
		if of.Offer == o.Signed.Name {
			if out == nil {
				out = map[string]int64{}
			}
			out[of.Plan] = units
		}
	}
	return out
}
