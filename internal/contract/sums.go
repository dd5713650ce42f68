package contract

import (
	"math/big"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Sum is what a cluster bought and sold so far in one currency. Amounts of several currencies are never added.
type Sum struct {
	Currency     string
	Bought, Sold *big.Rat
}

// Margin returns what was sold less what was bought.
func (s Sum) Margin() *big.Rat { return new(big.Rat).Sub(s.Sold, s.Bought) }

// SumUp adds up what is due so far of the contracts of the cluster self, by currency. What is free is not counted. If
// self is empty, because the cluster is not known, there are no sums: nobody can say what was bought and what was sold.
func SumUp(deals []api.Envelope[api.Deal], self string) []Sum {
	if self == "" {
		return nil
	}
	var out []Sum
	for _, d := range deals {
		amount, currency, _ := strings.Cut(d.Payload.Due, " ")
		due, ok := new(big.Rat).SetString(amount)
		if !ok { // it is free
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
		to.Add(to, due)
	}
	return out
}
