package catalog

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Each order is that of the broker's catalog, also for offers of several sources.
func TestMergeSortsLikeTheCatalog(t *testing.T) {
	one := func(id, region string, share int64, price string) listing {
		l := listing{ID: id, Payload: api.Listing{Properties: api.Properties{Region: region},
			Plans: map[string]api.PlanListing{"p": {}}}}
		if share > 0 {
			l.Payload.Uptime = &share
		}
		l.Payload.Offer.Plans = []api.Plan{{Name: "p",
			Price: &api.Price{Amount: price, Currency: "EUR", Period: api.PeriodHour}}}
		return l
	}
	for order, want := range map[api.CatalogOrder]string{api.ByName: "a b c",
		api.ByPrice: "b c a", api.ByRegion: "c a b", api.ByUptime: "b c a"} {
		all := []listing{one("c", "eu", 900_000, "2"), one("a", "it", 0, "3"), one("b", "us", 990_000, "1")}
		var got []string
		for _, l := range Merge(all, api.CatalogQuery{Sort: order}, time.Now()) {
			got = append(got, l.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %q: %v, want %s", order, got, want)
		}
	}
}

// A copy answers as the broker's catalog would, also by price, currency and duration.
func TestCopyIsSearchedLikeTheCatalog(t *testing.T) {
	now := time.Now()
	asOf, share := metav1.NewTime(now), int64(990_000)
	l := listing{ID: "milan/web", Payload: api.Listing{
		Seller: "milan", Name: "web", AsOf: &asOf, Uptime: &share,
		Offer: api.OfferSpec{Plans: []api.Plan{{Name: "p", Price: &api.Price{Amount: "2",
			Currency: "EUR", Period: api.PeriodHour}, MaxDuration: &metav1.Duration{Duration: 4 * time.Hour}}}},
		Plans: map[string]api.PlanListing{"p": {Remaining: 1}},
	}}
	most := func(amount, currency string) *api.Price {
		return &api.Price{Amount: amount, Currency: currency, Period: api.PeriodHour}
	}
	for name, test := range map[string]struct {
		q    api.CatalogQuery
		want bool
	}{
		"anything":             {api.CatalogQuery{}, true},
		"as dear as may be":    {api.CatalogQuery{For: 2 * time.Hour, MaxPrice: most("2", "EUR")}, true},
		"too dear":             {api.CatalogQuery{For: 2 * time.Hour, MaxPrice: most("1.99", "EUR")}, false},
		"another currency":     {api.CatalogQuery{MaxPrice: most("100", "USD")}, false},
		"a price that is none": {api.CatalogQuery{MaxPrice: most("much", "EUR")}, false},
		"its currency":         {api.CatalogQuery{Currency: "EUR"}, true},
		"there that often":     {api.CatalogQuery{Uptime: 990_000}, true},
		"not there that often": {api.CatalogQuery{Uptime: 999_000}, false},
		"for too long":         {api.CatalogQuery{For: 5 * time.Hour}, false},
	} {
		if _, found := match(l, test.q, now); found != test.want {
			t.Errorf("%s: found is %v", name, found)
		}
	}
}
