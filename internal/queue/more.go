package queue

import (
	"maps"
	"reflect"
	"slices"

	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// more reports whether a cluster may now serve requests that it could not before: it is back, or has
// more capacity, or its card changed. An advertisement without changes or with less capacity does not
// count.
func more(old, l *market.Listing, now market.Time) bool {
	if !l.Active() || !l.Fresh(now) || l.Measured == nil || l.Measured.Terms == nil {
		return false
	}
	if old == nil || !old.Fresh(now) || old.Measured == nil || old.Member != l.Member ||
		!slices.Equal(old.Offers, l.Offers) || !maps.Equal(old.Sold, l.Sold) ||
		!reflect.DeepEqual(old.Measured.Terms, l.Measured.Terms) {
		return true
	}
	for i := range l.Pools {
		p := &l.Pools[i]
		before := old.Pool(p.Name)
		if before == nil || p.Owner != before.Owner || p.Tenants != before.Tenants ||
			p.Tenant != before.Tenant || grew(before.Available, p.Available) {
			return true
		}
		if now, was := l.Measured.Pools[p.Name].Shapes,
			old.Measured.Pools[p.Name].Shapes; !p.Unfilled.Equal(before.Unfilled) || !reflect.DeepEqual(now, was) {
			return true
		}
	}
	return false
}

// grew reports whether any amount grew.
func grew(was, now amounts.List) bool {
	return slices.ContainsFunc(now, func(a amounts.Amount) bool { return a.Value > was.Of(a.Resource) })
}
