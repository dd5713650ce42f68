package match

import (
	"fmt"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

// A request with a highest price gets a provider that lends for free, or a plan of a provider that lends by
// offers only. Such a provider takes part with its cheapest plan that serves the request. The plans of a
// provider that lends are not considered.

// choice is the plan of a seller for a request, or the reason why there is none.
type choice struct {
	of     *market.Listing
	offer  *market.Offer
	plan   *market.Plan
	units  int64
	nanos  int64
	reason reason
}

func (c *choice) sale() *api.Sale {
	return &api.Sale{Offer: c.offer.Digest, Plan: c.plan.Name, Units: c.units}
}

// checkPrice reports why the highest price, or the strategy cheap, is not valid, or nil.
func checkPrice(r api.Request, d time.Duration) error {
	if r.MaxPrice != nil {
		_, err := money.LimitOf("maxPrice", r.MaxPrice, time.Time{}, d)
		return err
	}
	if r.Strategy == api.Cheap && r.Purchase == nil {
		return api.Invalid("strategy",
			"%s compares prices, and without a ceiling for the price nothing is bought", r.Strategy).
			Fix("give a maximum price for the whole request: maxPrice (--max-price)")
	}
	return nil
}

func noLimit(q *question) bool { return q.limit == nil }

// lends reports whether a cluster lends for free.
func lends(c *candidate) bool {
	return c.Measured != nil && c.Measured.Terms != nil && !c.Measured.Terms.OnlyOffers
}

func affordable(q *question, c *candidate) reason {
	if lends(c) {
		return passes
	}
	return q.choose(c).reason
}

// choose finds the cheapest plan for a request. Of two with the same price it is the first by name.
func (q *question) choose(c *candidate) *choice {
	if q.cheapest.of == c.Listing {
		return &q.cheapest
	}
	best := choice{of: c.Listing, reason: noPlan}
	for _, o := range c.Offers {
		if from := o.Signed.Offer.ValidFrom; from != nil && q.now.Go().Before(from.Time) ||
			!(Offered{c.Listing, o}).Shown(q.card, q.now) {
			continue
		}
		for i := range o.Plans {
			p := &o.Plans[i]
			units := p.Serves(q.Request.Pool, q.Size, q.Duration)
			if units == 0 || c.Remaining(o, p) < units {
				continue
			}
			if q.limit.Foreign(p.Price) {
				if best.plan == nil {
					best.reason = otherCurrency
				}
				continue
			}
			nanos := q.limit.Nanos(p.Price, units)
			if best.plan != nil && nanos >= best.nanos || !q.soldTo(c, o, p, units) {
				continue
			}
			best = choice{of: c.Listing, offer: o, plan: p, units: units, nanos: nanos}
		}
	}
	if best.plan != nil && !q.limit.Allows(best.plan.Price, best.units) {
		best.reason = tooDear
	}
	q.cheapest = best
	return &q.cheapest
}

// soldTo reports whether the offer and its seller's terms allow this buyer that many units, which may be
// more than the request.
func (q *question) soldTo(c *candidate, o *market.Offer, p *market.Plan, units int64) bool {
	size, err := p.Of(units)
	if err != nil || c.Measured.Terms.Refuses(size, c.pool.Accounts[q.Consumer]) != "" {
		return false
	}
	bigger := q.Ask
	bigger.Size = size
	for _, condition := range []string{c.Measured.Terms.Allow, o.Signed.Offer.Accept} {
		if ok, err := q.allow.allows(condition, q.card, &bigger); err != nil || !ok {
			return false
		}
	}
	return true
}

func explainPrice(q *question, c *candidate, r reason) string {
	switch r {
	case otherCurrency:
		return "sells in another currency than " + q.Request.MaxPrice.Currency + ", and currencies are not compared"
	case tooDear:
		b := q.bought(c)
		return fmt.Sprintf("its cheapest is %d of %s at %s, and costs %s: more than %s", b.Units, b.Plan,
			q.cheapest.plan.Price.Text(), b.Cost, q.limit.Text())
	default:
		return "lends by its offers only, and has no plan for all of the request: see bourse catalog --seller " + c.Cluster
	}
}

// excess returns how much more than the highest price the choice costs, in parts per million of it.
func excess(q *question, c *candidate) int64 {
	if b := q.choose(c); b.plan != nil {
		return q.limit.Beyond(b.nanos)
	}
	return million // as if it cost twice as much
}

// bought returns the purchase that the request would make at a cluster, or nil.
func (q *question) bought(c *candidate) *api.Bought {
	if q.limit == nil || lends(c) {
		return nil
	}
	b := q.choose(c)
	if b.plan == nil {
		return nil
	}
	out := &api.Bought{Plan: b.offer.Key() + "/" + b.plan.Name, Units: b.units}
	if !b.plan.Price.Free() {
		out.Cost = money.Text(q.limit.Cost(b.plan.Price, b.units), b.plan.Price.Currency) + " " + b.plan.Price.Currency
	}
	return out
}

// cheapness is the share of the highest price that is left.
func cheapness(q *question, c *candidate) int64 {
	if q.limit == nil || lends(c) {
		return million
	}
	b := q.choose(c)
	if b.plan == nil {
		return 0
	}
	if b.nanos == 0 {
		return million
	}
	return q.limit.Left(b.nanos)
}
