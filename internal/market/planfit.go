package market

import (
	"cmp"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/money"
)

// Serves returns the smallest number of units that have a size for a duration; 0: the plan does not
// sell that. Only a buyer that names it gets a plan with notice, or a dedicated one.
func (p *Plan) Serves(pool string, size amounts.List, d time.Duration) int64 {
	if p.Pool != pool || p.Notice != nil || p.Dedicated || p.Lasts(d) != nil {
		return 0
	}
	return p.UnitsFor(size)
}

// UnitsFor returns the smallest number of units that have a size; 0: the plan does not sell that.
func (p *Plan) UnitsFor(size amounts.List) int64 {
	units := p.Min
	for _, need := range size {
		unit := p.Size.Of(need.Resource)
		if unit == 0 {
			return 0
		}
		units = max(units, (need.Value-1)/unit+1)
	}
	if units > p.Max {
		return 0
	}
	if over := (units - p.Min) % p.Step; over > 0 {
		units += p.Step - over
	}
	if units > p.Max {
		return 0
	}
	return units
}

// checkPrice reports why units cost more than most for a duration, or nil. A nil most is no limit.
// Errors: Invalid and Conflict at maxPrice.
func (p *Plan) checkPrice(most *api.Price, units int64, from time.Time, d time.Duration) error {
	if most == nil {
		return nil
	}
	limit, err := money.LimitOf("maxPrice", most, from, d)
	if err != nil {
		return err
	}
	if limit.Foreign(p.Price) {
		return api.Errorf(api.CodeConflict, "plan %s costs %s, and currencies are not compared", p.Name, p.Price.Text()).
			At("maxPrice").Fix("give a maximum price in %s", p.Price.Currency)
	}
	if !limit.Allows(p.Price, units) {
		return api.Errorf(api.CodeConflict, "%d of plan %s at %s cost more than %s",
			units, p.Name, p.Price.Text(), limit.Text()).At("maxPrice").Fix("pay more, or ask for less")
	}
	return nil
}

// ForRequest returns the sale with which a plan of this offer serves a request that has a highest price and
// no purchase. Errors: Conflict if the plan does not sell the request, or costs more.
func (o *Offer) ForRequest(r api.Request, plan string, from time.Time, d time.Duration) (*api.Sale, *Plan, amounts.List,
	error) {
	asked, err := amounts.ParseRequest("resources", r.Resources)
	if err != nil {
		return nil, nil, nil, err
	}
	p, units := o.Plan(plan), int64(0)
	if p != nil {
		units = p.Serves(cmp.Or(r.Pool, api.GeneralPool), asked, d)
	}
	if units == 0 || r.MaxPrice == nil {
		return nil, nil, nil, api.Errorf(api.CodeConflict, "plan %s/%.63s does not sell what is asked for", o.Key(), plan).
			At("resources").FixBy("ask for what it sells", "bourse", "catalog", o.Key())
	}
	if err := p.checkPrice(r.MaxPrice, units, from, d); err != nil {
		return nil, nil, nil, err
	}
	size, err := p.Of(units)
	return &api.Sale{Offer: o.Digest, Plan: p.Name, Units: units}, p, size, err
}

// atProvider returns r as it would be at a provider: lent, or bought from the provider's plan; nil:
// neither is possible. A purchase is paid for from the request on, so it is possible within
// DecideTime only.
func (s *State) atProvider(provider string, r *Reservation, now Time) *Reservation {
	if r.Plans == nil {
		return r
	}
	next := clone(r)
	next.Sale, next.Offer, next.From = nil, nil, 0
	var err error
	sale, sells := r.Plans[provider]
	if !sells {
		next.Size, err = amounts.ParseRequest("resources", r.Request.Resources)
	} else {
		o := s.offers[sale.Offer]
		if o == nil || o.Plan(sale.Plan) == nil || now > r.Created.plus(DecideTime) {
			return nil
		}
		next.Sale, next.Offer, next.From = sale, o, r.Created/1000*1000
		next.Size, err = o.Plan(sale.Plan).Of(sale.Units)
	}
	if err != nil {
		return nil
	}
	return next
}

// largestSize returns the largest amount of each resource that a hold can take, over all candidates.
func (c *Hold) largestSize(s *State) amounts.List {
	most := c.Size
	if len(c.Plans) == 0 {
		return most
	}
	for _, sale := range c.Plans {
		if o := s.offers[sale.Offer]; o != nil && o.Plan(sale.Plan) != nil {
			if size, err := o.Plan(sale.Plan).Of(sale.Units); err == nil {
				most = most.Plus(size.Beyond(most))
			}
		}
	}
	return most
}
