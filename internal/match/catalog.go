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

// Found is an offer that a search found, with the plans that match.
type Found struct {
	Offered
	Plans []FoundPlan
}

// FoundPlan is a plan, with how many units are left and the cost of the smallest purchase.
type FoundPlan struct {
	*market.Plan
	Remaining int64
	// Nanos is the cost in billionths of the currency's unit, rounded down. Use it to compare costs only.
	Nanos int64
}

// Catalog searches the offers that a member sees at a time. It returns at most most of them, in the order of
// the query. The same view, query and time give the same result.
func (e *Engine) Catalog(v *market.View, to *api.Card, q api.CatalogQuery, now market.Time, most int) []Found {
	s := search{
		CatalogQuery: q, wanted: WantedBy(q, now.Go()), rates: money.RatesFor(now.Go(), cmp.Or(q.For, time.Hour)),
		to: to, now: now, most: min(most, maxFound),
	}
	s.Text = strings.ToLower(s.Text)
	if q.Seller != "" {
		if l := v.Listing(q.Seller); l != nil {
			s.searchSeller(l)
		}
		return s.found()
	}
	for slot := range v.Len() {
		s.searchSeller(v.At(slot))
	}
	return s.found()
}

// maxFound is more than there are offers.
const maxFound = 1 << 30

// search is a query and the hits so far.
type search struct {
	api.CatalogQuery
	wanted Wanted
	rates  money.Rates
	to     *api.Card
	now    market.Time
	most   int
	hits   []hit
	full   bool // there are most hits: only those before the last of them matter
}

// hit is an offer, with the price that it is sorted by.
type hit struct {
	Offered
	currency string
	nanos    int64
}

// searchSeller adds the matching offers of a seller. Cheap checks that rule out most sellers come first.
func (s *search) searchSeller(l *market.Listing) {
	own := l.Cluster == s.to.Cluster
	switch {
	case len(l.Offers) == 0, !own && !showsOffers(l, s.to),
		s.Uptime > 0 && l.Uptime < s.Uptime, s.Region != "" && regionOf(l) != s.Region:
		return
	case !l.Fresh(s.now) && (s.Available || !own && s.leavesOut(l)),
		(s.GPU != "" || s.SellerGPU != "") && !HasGPUs(l.Card().Properties.GPUs, s.GPU, s.SellerGPU):
		return
	}
	for _, o := range l.Offers {
		h := hit{Offered: Offered{l, o}}
		if s.full && s.Sort != api.ByPrice && !s.before(&h) {
			return // the following ones come later still
		}
		if s.Type != "" && o.Signed.Offer.Type != s.Type || s.Text != "" && !strings.Contains(o.Text, s.Text) ||
			!own && !h.offerShown(s.to, s.now) {
			continue
		}
		if s.sold(&h) && (!s.full || s.before(&h)) {
			s.add(h)
		}
	}
}

// HasGPUs reports whether each text that is not empty occurs in the name of one of a seller's GPUs. Case
// does not matter.
func HasGPUs(gpus []string, texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		return text != "" && !slices.ContainsFunc(gpus, func(name string) bool {
			return strings.Contains(strings.ToLower(name), strings.ToLower(text))
		})
	})
}

// before reports whether an offer comes before the last of the first most hits.
func (s *search) before(h *hit) bool { return s.compare(h, &s.hits[s.most-1]) < 0 }

func (s *search) add(h hit) {
	if s.hits = append(s.hits, h); len(s.hits) == 2*s.most {
		s.sort()
		s.hits, s.full = s.hits[:s.most], true
	}
}

func (s *search) sort() { slices.SortFunc(s.hits, func(a, b hit) int { return s.compare(&a, &b) }) }

func (s *search) found() []Found {
	s.sort()
	out := make([]Found, 0, min(len(s.hits), s.most))
	for _, h := range s.hits[:min(len(s.hits), s.most)] {
		out = append(out, Found{h.Offered, s.plans(h.Offered)})
	}
	return out
}

// compare orders by the query, then by seller and name.
func (s *search) compare(a, b *hit) int {
	by := 0
	switch s.Sort {
	case api.ByPrice: // free ones first, then currency by currency
		by = cmp.Or(strings.Compare(a.currency, b.currency), cmp.Compare(a.nanos, b.nanos))
	case api.ByRegion:
		by = strings.Compare(regionOf(a.Listing), regionOf(b.Listing))
	case api.ByUptime:
		by = cmp.Compare(b.Uptime, a.Uptime)
	}
	if by == 0 && a.Slot != b.Slot {
		by = strings.Compare(a.Cluster, b.Cluster)
	}
	return cmp.Or(by, strings.Compare(a.Signed.Name, b.Signed.Name))
}

func regionOf(l *market.Listing) string {
	if l.Member == nil || l.Member.Card == nil {
		return ""
	}
	return l.Member.Card.Properties.Region
}

// sold reports whether any plan of the offer matches. To sort by price, it sets the price of the
// cheapest plan in the first currency: amounts of two currencies are never compared.
func (s *search) sold(h *hit) bool {
	any := false
	for i := range h.Plans {
		p := &h.Plans[i]
		if !s.matchesPlan(h.Offered, p) {
			continue
		}
		if s.Sort != api.ByPrice {
			return true
		}
		nanos := p.Price.Nanos(p.Min, s.rates)
		if by := cmp.Or(strings.Compare(p.Price.Currency, h.currency), cmp.Compare(nanos, h.nanos)); !any || by < 0 {
			h.currency, h.nanos, any = p.Price.Currency, nanos, true
		}
	}
	return any
}

// matchesPlan reports whether a plan matches.
func (s *search) matchesPlan(o Offered, p *market.Plan) bool {
	return s.wanted.Has(p) && (!s.Available || o.Remaining(o.Offer, p) >= p.Min)
}

// Wanted is the part of a query about plans. The zero value matches any plan.
type Wanted struct {
	currency string
	lasting  time.Duration
	limit    *money.Limit
	gpu      bool
	none     bool
}

// WantedBy returns the part of a query about plans. A query with an invalid highest price matches none.
func WantedBy(q api.CatalogQuery, now time.Time) Wanted {
	w := Wanted{currency: q.Currency, lasting: q.For, gpu: q.GPU != ""}
	if q.MaxPrice != nil {
		var err error
		w.limit, err = money.LimitOf("maxPrice", q.MaxPrice, now, cmp.Or(q.For, time.Hour))
		w.none = err != nil
	}
	return w
}

// Has reports whether a plan matches, at the price of its smallest purchase.
func (w *Wanted) Has(p *market.Plan) bool {
	switch {
	case w.none, w.currency != "" && !p.Price.Free() && p.Price.Currency != w.currency, w.lasting > 0 &&
		p.Lasts(w.lasting) != nil:
		return false
	}
	return (w.limit == nil || w.limit.Allows(p.Price, p.Min)) && (!w.gpu || sellsGPU(p.Resources))
}

// sellsGPU reports whether resources include a GPU, a part of one, or another device: those of a vendor have names
// with the vendor's domain, which need not contain "gpu".
func sellsGPU(r api.Resources) bool {
	for name := range r {
		domain, _, ofVendor := strings.Cut(string(name), "/")
		if strings.Contains(string(name), "gpu") || ofVendor && !strings.HasSuffix(domain, "k8s.io") &&
			!strings.HasSuffix(domain, "kubernetes.io") {
			return true
		}
	}
	return false
}

func (s *search) plans(o Offered) []FoundPlan {
	out := make([]FoundPlan, 0, len(o.Plans))
	for i := range o.Plans {
		if p := &o.Plans[i]; s.matchesPlan(o, p) {
			out = append(out, FoundPlan{p, o.Remaining(o.Offer, p), p.Price.Nanos(p.Min, s.rates)})
		}
	}
	return out
}

// FoundOf returns an offer as an empty query finds it, with the cost of one hour.
func FoundOf(o Offered, now market.Time) Found {
	s := search{rates: money.RatesFor(now.Go(), time.Hour)}
	return Found{o, s.plans(o)}
}

// leavesOut reports whether the search leaves out a silent seller.
func (s *search) leavesOut(l *market.Listing) bool {
	fading := FadingOf(l, s.now)
	return fading == api.Hidden && !s.Hidden || fading == api.ExpiredOffer
}

// FadingOf returns how far the offers of a seller have faded. It is empty while the lease is alive.
func FadingOf(l *market.Listing, now market.Time) api.Fading {
	if l.Fresh(now) {
		return ""
	}
	return api.FadingAfter(time.Duration(l.Silent) * time.Millisecond)
}
