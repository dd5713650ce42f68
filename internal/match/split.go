package match

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// MaxSplit is the largest number of providers for one request.
const MaxSplit = maxRanked

// Split divides an ask into the fewest equal parts with as many providers, and ranks the providers of a part.
// One part is the whole ask. No parts: there are not enough providers, and the ranking explains the smallest
// part.
func (e *Engine) Split(v *market.View, a Ask, now market.Time) (parts []amounts.List, r Ranking) {
	for n := int64(1); n <= int64(max(a.Request.Split, 1)); n++ {
		parts := divided(a.Size, n)
		if parts == nil {
			break
		}
		part := a
		if part.Size = parts[0]; !part.Size.Fits(a.Pod) {
			break
		}
		part.Request.Resources = part.Size.Resources()
		r = e.Decide(v, part, now)
		if n > 1 {
			r.Decision.Parts, r.Part = int(n), part.Size
		}
		if int64(len(r.Providers)) >= n {
			return parts, r
		}
	}
	r.Decision.Chosen, r.Decision.Sequence = "", api.Sequence{}
	return nil, r
}

// divided returns an amount in n parts, the largest first. They differ by at most one of the smallest unit.
// Nil: there is not enough for n parts.
func divided(size amounts.List, n int64) []amounts.List {
	parts := make([]amounts.List, n)
	for _, a := range size {
		if a.Value < n {
			return nil
		}
		for i := range parts {
			part := amounts.Amount{Resource: a.Resource, Value: a.Value / n}
			if int64(i) < a.Value%n {
				part.Value++
			}
			parts[i] = append(parts[i], part)
		}
	}
	return parts
}

func checkSplit(r api.Request) error {
	switch {
	case r.Split < 0 || r.Split > MaxSplit:
		return api.Invalid("split", "%d is out of bounds", r.Split).Fix("give the largest number of providers: 1 to %d",
			MaxSplit)
	case r.Split <= 1:
		return nil
	case r.Purchase != nil, r.MaxPrice != nil:
		return api.Invalid("split", "a purchase has one seller").Fix("leave it out, or buy from several")
	case r.Wait != nil:
		return api.Invalid("split", "a split request cannot wait").Fix("leave out wait, or split")
	case r.Target != "":
		return api.Invalid("split", "a request with a target has one provider").Fix("leave out target, or split")
	}
	return nil
}
