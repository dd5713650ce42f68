package agent

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// What a copy answers is what the broker's catalog would: by price, currency and duration, too.
func TestCopyIsSearchedLikeTheCatalog(t *testing.T) {
	now := time.Now()
	asOf := metav1.NewTime(now)
	l := listing{ID: "milan/web", Payload: api.Listing{
		Seller: "milan", Name: "web", AsOf: &asOf,
		Offer: api.OfferSpec{Plans: []api.Plan{{Name: "p", Price: &api.Price{Amount: "2", Currency: "EUR", Period: api.PeriodHour}, MaxDuration: &metav1.Duration{Duration: 4 * time.Hour}}}},
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
		"for too long":         {api.CatalogQuery{For: 5 * time.Hour}, false},
	} {
		if _, found := lookAt(l, test.q, now); found != test.want {
			t.Errorf("%s: found is %v", name, found)
		}
	}
}
