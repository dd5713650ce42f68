// Package due computes what contracts cost: what is due of one at a time ([At]), what one costs in an hour ([Hour]), and
// the sums of many ([SumUp]). It reads the status of Contract objects, so it knows no market and no key. The agent
// computes the amount in that status once an hour (internal/contract).
package due

import (
	"math/big"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
)

// Sum is what a cluster bought and sold in one currency. Amounts of several currencies are never added.
type Sum struct {
	Currency     string
	Bought, Sold *big.Rat
}

// Margin returns what was sold less what was bought.
func (s Sum) Margin() *big.Rat { return new(big.Rat).Sub(s.Sold, s.Bought) }

// SumUp adds up what is due so far of the contracts of the cluster self, by currency. What is free is not counted. If
// self is empty, because the cluster is not known, there are no sums: nobody can say what was bought and what was sold.
func SumUp(deals []api.Envelope[api.Deal], self string) []Sum {
	return sumUp(deals, self, func(d api.Deal) (*big.Rat, string) {
		amount, currency, _ := strings.Cut(d.Due, " ")
		sum, ok := new(big.Rat).SetString(amount)
		if !ok { // it is free
			return nil, ""
		}
		return sum, currency
	})
}

// At returns what is due at a time of a contract ("0.03 EUR"): what its status has, and since then the price of its
// units. It is empty if the contract is free.
func At(s api.ContractStatus, now time.Time) string {
	if s.Due == nil {
		return ""
	}
	amount, currency, _ := strings.Cut(s.Due.Amount, " ")
	sum, ok := new(big.Rat).SetString(amount)
	price, err := money.Parse("price", s.Terms.Price)
	if !ok || err != nil || price.Free() {
		return s.Due.Amount
	}
	end := End(s).Time
	if end.After(now) {
		end = now
	}
	if !end.After(s.Due.At.Time) {
		return s.Due.Amount
	}
	sum.Add(sum, price.Between(s.Terms.Units, s.Terms.Begins.Time, s.Due.At.Time, end))
	return money.Text(sum, currency) + " " + currency
}

// End returns when a contract ends, or has ended.
func End(s api.ContractStatus) metav1.Time {
	if s.Until != nil {
		return *s.Until
	}
	end := s.Terms.Until // an older version wrote it
	for _, early := range []*metav1.Time{s.Reclaimed, s.Ended} {
		if early != nil && early.Before(&end) {
			end = *early
		}
	}
	return end
}

// SumUpHour adds up what the contracts of the cluster self cost in the hour from a time on, as SumUp does.
func SumUpHour(deals []api.Envelope[api.Deal], self string, from time.Time) []Sum {
	return sumUp(deals, self, func(d api.Deal) (*big.Rat, string) { return Hour(d.Status, from) })
}

// Hour returns what a contract costs in the hour from a time on, and in which currency; nil if it is free, or over by then.
func Hour(s api.ContractStatus, from time.Time) (*big.Rat, string) {
	price, err := money.Parse("price", s.Terms.Price)
	if err != nil || price.Free() || s.State.Over() || s.Ended != nil || !from.Before(End(s).Time) {
		return nil, ""
	}
	return price.Between(s.Terms.Units, s.Terms.Begins.Time, from, from.Add(time.Hour)), price.Currency
}

func sumUp(deals []api.Envelope[api.Deal], self string, of func(api.Deal) (*big.Rat, string)) []Sum {
	if self == "" {
		return nil
	}
	var out []Sum
	for _, d := range deals {
		amount, currency := of(d.Payload)
		if amount == nil {
			continue
		}
		i, found := slices.BinarySearchFunc(out, currency, func(s Sum, c string) int { return strings.Compare(s.Currency, c) })
		if !found {
			out = slices.Insert(out, i, Sum{Currency: currency, Bought: new(big.Rat), Sold: new(big.Rat)})
		}
		to := out[i].Bought
		if d.Payload.Status.Terms.Seller == self {
			to = out[i].Sold
		}
		to.Add(to, amount)
	}
	return out
}
