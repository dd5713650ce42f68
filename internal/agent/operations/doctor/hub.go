package doctor

import (
	"math/big"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

// findInHub looks whether customers can use a hub, and whether it sells for less than it pays.
func findInHub(s *market.State, hub string) (found []api.Problem) {
	if len(hub) > liqo.MaxHubID {
		found = append(found, health.HubIDTooLong.Of("cluster "+hub, "install Liqo with a shorter clusterID",
			"the ID has %d characters, and that of a hub at most %d", len(hub), liqo.MaxHubID))
	}
	paid, earned := map[string]*big.Rat{}, map[string]*big.Rat{} // in an hour, by currency
	var bought, sold amounts.List
	add := func(to map[string]*big.Rat, r *market.Reservation) {
		nanos, currency := r.Hourly()
		if nanos > 0 {
			if to[currency] == nil {
				to[currency] = new(big.Rat)
			}
			to[currency].Add(to[currency], big.NewRat(nanos, 1_000_000_000))
		}
	}
	for _, r := range s.Of(hub, 0) {
		switch {
		case !r.Bound():
		case r.Consumer == hub && r.Relend:
			bought = bought.Plus(r.Size)
			add(paid, r)
		case r.Provider == hub && r.Sale != nil:
			sold = sold.Plus(r.Size)
			add(earned, r)
		}
	}
	if len(paid) != 1 { // it pays nothing, or in currencies that cannot be compared
		return found
	}
	part := new(big.Rat) // of what it bought: that of the resource that is sold most
	for _, has := range bought {
		if has.Value > 0 {
			if share := big.NewRat(min(sold.Of(has.Resource), has.Value), has.Value); share.Cmp(part) > 0 {
				part = share
			}
		}
	}
	for currency, all := range paid {
		cost, income := new(big.Rat).Mul(all, part), earned[currency]
		if income == nil {
			income = new(big.Rat)
		}
		if _, others := earned[currency]; income.Cmp(cost) < 0 && (others || len(earned) == 0) {
			found = append(found, health.SoldBelowCost.Of("cluster "+hub, "raise the prices of new versions of the offers: "+
				"bourse offer edit", "customers pay %s %s an hour for what costs %s",
				money.Text(income, currency), currency, money.Text(cost, currency)))
		}
	}
	return found
}
