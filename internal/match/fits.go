package match

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/bourse-dev/bourse/internal/amounts"
)

// million is one, in the unit of scores and shortfalls.
const million = 1_000_000

// notOwnedByOther passes a pool that is not dedicated to another consumer.
func notOwnedByOther(q *question, c *candidate) reason {
	return when(c.pool.Owner != "" && c.pool.Owner != q.Consumer, othersAlone)
}

func unowned(c *candidate) bool { return c.pool != nil && c.pool.Owner == "" }

func explainOwned(q *question, _ *candidate, _ reason) string {
	return fmt.Sprintf("has dedicated pool %q to another consumer", q.Request.Pool)
}

func notDedicated(q *question) bool { return !q.dedicated }

// notUsedByOther passes a pool without other consumers.
func notUsedByOther(q *question, c *candidate) reason {
	return when(c.pool.Tenants > 0 && c.pool.Tenant != q.Consumer, notAlone)
}

func explainShared(q *question, _ *candidate, _ reason) string {
	return fmt.Sprintf("has other consumers in pool %q, and the plan needs the whole pool", q.Request.Pool)
}

func notOvercommitted(_ *question, c *candidate) reason {
	return when(c.pool != nil && c.pool.Available.Negative(), overcommitted)
}

// explainOvercommitted names each resource with less than the reservations take.
func explainOvercommitted(_ *question, c *candidate, _ reason) string {
	var over []string
	for _, has := range c.pool.Available {
		if has.Value < 0 {
			over = append(over, quantity(has.Resource, -has.Value)+" "+has.Resource)
		}
	}
	return "is overcommitted by " + strings.Join(over, ", ")
}

func fits(q *question, c *candidate) reason {
	for i := range q.Size {
		if c.capacities[i].available < q.Size[i].Value {
			return tooLittle
		}
	}
	return passes
}

// shortfall returns how much of the scarcest resource is missing, in parts per million of the request.
func shortfall(q *question, c *candidate) int64 {
	return missing(q.Size, func(i int) int64 { return c.capacities[i].available })
}

// missing returns how much of the scarcest amount is missing, in parts per million of it. has
// returns how much there is of the i-th amount.
func missing(needs amounts.List, has func(i int) int64) int64 {
	worst := fraction{0, 1}
	for i, need := range needs {
		if short := (fraction{need.Value - has(i), need.Value}); short.part > 0 && worst.less(short) {
			worst = short
		}
	}
	return worst.millionths()
}

// explainFits names each resource that is short: "4 cpu short: 2 of 6 available".
func explainFits(q *question, c *candidate, _ reason) string {
	var short []string
	for i, need := range q.Size {
		if has := c.capacities[i].available; has < need.Value {
			short = append(short, fmt.Sprintf("%s %s short: %s of %s available", quantity(need.Resource, need.Value-has),
				need.Resource, quantity(need.Resource, has), quantity(need.Resource, need.Value)))
		}
	}
	return strings.Join(short, ", ")
}

// quantity returns an amount for messages.
func quantity(resource string, value int64) string {
	return amounts.Amount{Resource: resource, Value: value}.Text()
}

// fraction is part / whole. Part is at least 0, whole at least 1. Products of amounts need more than 64 bits.
type fraction struct{ part, whole int64 }

func (f fraction) less(o fraction) bool {
	hi, lo := bits.Mul64(uint64(f.part), uint64(o.whole))
	ohi, olo := bits.Mul64(uint64(o.part), uint64(f.whole))
	return hi < ohi || hi == ohi && lo < olo
}

// millionths returns the fraction in parts per million, rounded down, at most the largest int64.
func (f fraction) millionths() int64 {
	hi, lo := bits.Mul64(uint64(f.part), million)
	if hi >= uint64(f.whole) {
		return math.MaxInt64
	}
	out, _ := bits.Div64(hi, lo, uint64(f.whole))
	return int64(min(out, math.MaxInt64))
}
