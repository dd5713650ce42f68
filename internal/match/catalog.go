package match

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

// Found is an offer that a search found, with the plans that it is about.
type Found struct {
	Offered
	Plans []FoundPlan
}

// FoundPlan is a plan, how many units of it are left and what its fewest units cost.
type FoundPlan struct {
	*market.Plan
	Remaining int64
	// Nanos is the cost in thousand-millionths of the currency's unit, rounded down: for comparing.
	Nanos int64
}

// Catalog searches the offers that a member with that card is shown, at that time. The same view, search and time find the same.
func (e *Engine) Catalog(v *market.View, to *api.Card, q api.CatalogQuery, now market.Time) []Found {
	s := search{CatalogQuery: q, rates: money.RatesFor(now.Go(), cmp.Or(q.For, time.Hour))}
	if q.MaxPrice != nil {
		if s.limit, _ = money.LimitOf("maxPrice", q.MaxPrice, now.Go(), cmp.Or(q.For, time.Hour)); s.limit == nil {
			return nil // a price that is none
		}
	}
	s.Text, s.GPU = strings.ToLower(s.Text), strings.ToLower(s.GPU)
	var found []Found
	for slot := range v.Len() {
		l := v.At(slot)
		if len(l.Offers) == 0 || s.Seller != "" && l.Cluster != s.Seller || !s.seller(l, now) {
			continue
		}
		for _, o := range l.Offers {
			offered := Offered{l, o}
			if s.Type != "" && o.Signed.Offer.Type != s.Type || s.Text != "" && !strings.Contains(o.Text, s.Text) || !offered.Shown(to, now) {
				continue
			}
			if plans := s.plans(offered); len(plans) > 0 {
				found = append(found, Found{offered, plans})
			}
		}
	}
	slices.SortFunc(found, func(a, b Found) int {
		if s.ByPrice {
			if by := a.cheapest().compare(b.cheapest()); by != 0 {
				return by
			}
		}
		return strings.Compare(a.Key(), b.Key())
	})
	return found
}

// search is a query, and what its prices are compared by.
type search struct {
	api.CatalogQuery
	rates money.Rates
	limit *money.Limit
}

// seller says whether offers of this seller are looked for.
func (s *search) seller(l *market.Listing, now market.Time) bool {
	if s.Available && !l.Fresh(now) {
		return false
	}
	if s.Region == "" && s.GPU == "" {
		return true
	}
	p := l.Card().Properties
	return (s.Region == "" || p.Region == s.Region) &&
		(s.GPU == "" || slices.ContainsFunc(p.GPUs, func(name string) bool { return strings.Contains(strings.ToLower(name), s.GPU) }))
}

func (s *search) plans(o Offered) []FoundPlan {
	out := make([]FoundPlan, 0, len(o.Plans))
	for i := range o.Plans {
		p := &o.Plans[i]
		if s.Currency != "" && !p.Price.Free() && p.Price.Currency != s.Currency || s.For > 0 && p.Lasts(s.For) != nil {
			continue
		}
		if s.limit != nil && !s.limit.Allows(p.Price, p.Min) {
			continue
		}
		left := o.Remaining(o.Offer, p)
		if s.Available && left < p.Min {
			continue
		}
		out = append(out, FoundPlan{p, left, p.Price.Nanos(p.Min, s.rates)})
	}
	return out
}

// cheapest is the plan that an offer is sorted by: of those in its first currency, as amounts of two are never compared.
func (f *Found) cheapest() *FoundPlan {
	best := &f.Plans[0]
	for i := range f.Plans {
		if p := &f.Plans[i]; p.compare(best) < 0 {
			best = p
		}
	}
	return best
}

// compare orders plans by price: free ones first, then currency by currency.
func (p *FoundPlan) compare(q *FoundPlan) int {
	return cmp.Or(strings.Compare(p.Price.Currency, q.Price.Currency), cmp.Compare(p.Nanos, q.Nanos))
}
