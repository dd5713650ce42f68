package match

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// MaxSplit is on how many providers one request may be.
const MaxSplit = maxRanked

// Split divides an ask into the fewest equal parts for which there are as many providers, and ranks the
// providers of a part. One part is the whole. No part: there are not so many providers; the ranking then
// explains the smallest part.
func (e *Engine) Split(v *market.View, a Ask, now market.Time) (parts []market.Amounts, r Ranking) {
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
			r.Decision.Parts = int(n)
		}
		if int64(len(r.Providers)) >= n {
			return parts, r
		}
	}
	return nil, r
}

// divided is an amount in n parts, the largest first: they differ by at most one of the smallest unit. Nil:
// there is not enough for each.
func divided(size market.Amounts, n int64) []market.Amounts {
	parts := make([]market.Amounts, n)
	for _, a := range size {
		if a.Value < n {
			return nil
		}
		for i := range parts {
			part := market.Amount{Resource: a.Resource, Value: a.Value / n}
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
		return api.Invalid("split", "%d is out of bounds", r.Split).Fix("say on how many providers at most: 1 to %d",
			MaxSplit)
	case r.Split <= 1:
		return nil
	case r.Purchase != nil, r.MaxPrice != nil:
		return api.Invalid("split", "what is bought is from one seller").Fix("leave it out, or buy from several")
	case r.Wait != nil:
		return api.Invalid("split", "a request that may be split does not wait").Fix("leave out wait, or split")
	case r.Target != "":
		return api.Invalid("split", "it is for one target").Fix("leave out target, or split")
	}
	return nil
}
