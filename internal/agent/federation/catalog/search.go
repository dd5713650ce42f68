package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	filter "github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/money"
)

// Merge returns the offers of several sources, each once, in the order that the query wants. An offer that a
// broker or seller shows now replaces a copy of it; then the newest version counts.
func Merge(all []listing, q api.CatalogQuery, now time.Time) []listing {
	slices.SortStableFunc(all, func(a, b listing) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), number(a.Payload.AsOf != nil)-number(b.Payload.AsOf != nil),
			cmp.Compare(b.Payload.Version, a.Payload.Version), number(b.Payload.Fresh)-number(a.Payload.Fresh))
	})
	all = slices.CompactFunc(all, func(a, b listing) bool { return a.ID == b.ID })
	switch q.Sort {
	case api.ByPrice:
		rates := money.RatesFor(now, cmp.Or(q.For, time.Hour))
		slices.SortStableFunc(all, func(a, b listing) int {
			x, y := cheapest(a, rates), cheapest(b, rates)
			return x.compare(y)
		})
	case api.ByRegion:
		slices.SortStableFunc(all, func(a, b listing) int {
			return strings.Compare(a.Payload.Properties.Region, b.Payload.Properties.Region)
		})
	case api.ByUptime:
		slices.SortStableFunc(all, func(a, b listing) int { return cmp.Compare(uptime(b), uptime(a)) })
	}
	return all
}

// uptime returns the seller's uptime in parts per million, and less than 0 where it is not known.
func uptime(l listing) int64 {
	if l.Payload.Uptime == nil {
		return market.UnknownUptime
	}
	return *l.Payload.Uptime
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cost is the sort key of plans.
type cost struct {
	currency string
	nanos    int64
}

func (c cost) compare(d cost) int {
	return cmp.Or(strings.Compare(c.currency, d.currency), cmp.Compare(c.nanos, d.nanos))
}

func cheapest(l listing, rates money.Rates) (best cost) {
	first := true
	for _, p := range l.Payload.Offer.Plans {
		price, err := money.Parse("price", p.Price)
		if _, shown := l.Payload.Plans[p.Name]; err != nil || !shown {
			continue
		}
		if c := (cost{price.Currency, price.Nanos(minUnits(&p), rates)}); first || c.compare(best) < 0 {
			best, first = c, false
		}
	}
	return best
}

func minUnits(p *api.Plan) int64 {
	if p.Units == nil {
		return 1
	}
	return max(1, p.Units.Min)
}

// match returns a copied offer as a query finds it, with the cost of each plan. ok is false where the query
// does not look for it.
func match(l listing, q api.CatalogQuery, now time.Time) (found listing, ok bool) {
	o := &l.Payload
	silent := o.AsOf.Time
	if o.SilentSince != nil && o.SilentSince.Time.Before(silent) {
		silent = o.SilentSince.Time
	}
	o.Fresh, o.Fading = false, api.FadingAfter(now.Sub(silent))
	text := strings.ToLower(q.Text)
	switch until := o.Offer.ValidUntil; {
	case o.Fading == api.ExpiredOffer, o.Fading == api.Hidden &&
		!q.Hidden, q.Available, q.Uptime > 0 && uptime(l) < q.Uptime, until != nil && !now.Before(until.Time),
		q.Seller != "" && o.Seller != q.Seller, q.Type != "" && o.Offer.Type != q.Type, q.Region != "" &&
			o.Properties.Region != q.Region,
		text != "" && !strings.Contains(market.SearchText(&api.SignedOffer{Seller: o.Seller, Name: o.Name, Offer: o.Offer}),
			text),
		!filter.HasGPUs(o.Properties.GPUs, q.GPU, q.SellerGPU):
		return l, false
	}
	o.Plans = maps.Clone(o.Plans)
	wanted := filter.WantedBy(q, now)
	for i := range o.Offer.Plans {
		p := &o.Offer.Plans[i]
		left, shown := o.Plans[p.Name]
		price, err := money.Parse("price", p.Price)
		switch {
		case !shown:
		case err != nil, !wanted.Has(&market.Plan{Plan: p, Price: price, Min: minUnits(p)}):
			delete(o.Plans, p.Name)
		case !price.Free():
			left.Cost = money.Text(price.Cost(minUnits(p), now, cmp.Or(q.For, time.Hour)), price.Currency)
			o.Plans[p.Name] = left
		}
	}
	return l, len(o.Plans) > 0
}

// Search returns the copied offers of some routes that a query looks for, each with the time when it was
// up to date. known reports whether there is a copy of any of them.
func (c *Cache) Search(vias []string, q api.CatalogQuery, now time.Time) (found []listing, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, via := range vias {
		copied := c.copies[via]
		if copied == nil {
			continue
		}
		known = true
		for _, offers := range copied.Offers {
			for _, l := range offers {
				l.Payload.AsOf = &copied.AsOf
				if l, ok := match(l, q, now); ok {
					found = append(found, l)
				}
			}
		}
	}
	return found, known
}
