// Package money computes the cost of a contract exactly, in fractions, and rounds only to format.
//
// A price is an amount per period for one unit of a plan. A part of a period costs that part of the
// price. Minutes, hours, days and weeks are lengths of time. Months and years are those of the
// calendar, counted from the start of the contract, and a part of one is a part of its own length.
// Amounts of different currencies are never added or compared.
package money

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
	"time"

	"golang.org/x/text/currency"

	"github.com/bourse-dev/bourse/api"
)

// nano is the number of parts into which prices divide a currency's unit.
const nano = 1_000_000_000

// Price is a valid price. The zero Price is free.
type Price struct {
	// Nano is the amount in billionths of the currency's unit, at most 1e18.
	Nano     int64
	Currency string
	Period   api.Period
}

// Parse checks a price. Nil is free, as is an amount of 0. Errors: Invalid at a field below field.
func Parse(field string, p *api.Price) (Price, error) {
	if p == nil {
		return Price{}, nil
	}
	out := Price{Currency: p.Currency, Period: p.Period}
	var ok bool
	if out.Nano, ok = parseNano(p.Amount); !ok {
		return Price{}, api.Invalid(field+".amount", "%.40q is not an amount", p.Amount).
			Fix("write a decimal number such as 2 or 0.35, with at most nine digits on each side of the point")
	}
	if unit, err := currency.ParseISO(p.Currency); err != nil || unit.String() != p.Currency {
		return Price{}, api.Invalid(field+".currency", "%.40q is not a currency", p.Currency).
			Fix("use an ISO 4217 code such as EUR")
	}
	if _, known := seconds[p.Period]; !known && p.Period != api.PeriodMonth && p.Period != api.PeriodYear {
		return Price{}, api.Invalid(field+".period", "%.40q is not a period", string(p.Period)).
			Fix("use minute, hour, day, week, month or year")
	}
	if out.Free() { // in any currency
		return Price{}, nil
	}
	return out, nil
}

// seconds gives the lengths of the periods with a fixed length.
var seconds = map[api.Period]int64{api.PeriodMinute: 60, api.PeriodHour: 3600,
	api.PeriodDay: 86_400, api.PeriodWeek: 604_800}

func parseNano(amount string) (v int64, ok bool) {
	whole, part, pointed := strings.Cut(amount, ".")
	if len(whole) < 1 || len(whole) > 9 || len(whole) > 1 && whole[0] == '0' || len(part) > 9 || pointed && part == "" {
		return 0, false
	}
	for _, digit := range []byte(whole + part + strings.Repeat("0", 9-len(part))) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		v = 10*v + int64(digit-'0')
	}
	return v, true
}

// Free reports whether the price is 0.
func (p Price) Free() bool { return p.Nano == 0 }

// AtMost reports whether a price is at most a limit, which must have the same currency and period.
func (p Price) AtMost(limit *api.Price) bool {
	most, err := Parse("", limit)
	return err == nil && limit != nil && most.Currency == p.Currency && most.Period == p.Period && p.Nano <= most.Nano
}

// Cost returns the exact cost of units for a duration from a time on, in the currency's unit.
func (p Price) Cost(units int64, from time.Time, d time.Duration) *big.Rat {
	cost := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(p.Nano), big.NewInt(units)), big.NewInt(nano))
	return cost.Mul(cost, periods(p.Period, from.UTC(), d))
}

// Between returns the cost of units from one time to another, in a contract that began at begun, from
// which its months and years are counted. It is 0 if until is before from.
func (p Price) Between(units int64, begun, from, until time.Time) *big.Rat {
	if !until.After(from) {
		return new(big.Rat)
	}
	cost := p.Cost(units, begun, until.Sub(begun))
	return cost.Sub(cost, p.Cost(units, begun, from.Sub(begun)))
}

// Rates gives the number of periods of each kind in a duration, to compare many prices over it.
type Rates map[api.Period]rate

type rate struct{ numerator, denominator uint64 }

// RatesFor returns the rates of a duration from a time on.
func RatesFor(from time.Time, d time.Duration) Rates {
	out := Rates{}
	for _, p := range []api.Period{api.PeriodMinute, api.PeriodHour,
		api.PeriodDay, api.PeriodWeek, api.PeriodMonth, api.PeriodYear} {
		n := periods(p, from.UTC(), d)
		out[p] = rate{n.Num().Uint64(), n.Denom().Uint64()}
	}
	return out
}

// Nanos returns the cost of units in billionths of the currency's unit, rounded down, for comparisons
// only. It saturates at the largest int64.
func (p Price) Nanos(units int64, rates Rates) int64 {
	if p.Free() {
		return 0
	}
	r := rates[p.Period]
	over, all := bits.Mul64(uint64(p.Nano), uint64(units))
	high, low := bits.Mul64(all, r.numerator)
	if over > 0 || high >= r.denominator { // rare, so it may be slow
		cost := new(big.Int).Mul(big.NewInt(p.Nano), big.NewInt(units))
		cost.Mul(cost, new(big.Int).SetUint64(r.numerator)).Quo(cost, new(big.Int).SetUint64(r.denominator))
		if !cost.IsInt64() {
			return math.MaxInt64
		}
		return cost.Int64()
	}
	cost, _ := bits.Div64(high, low, r.denominator)
	return int64(min(cost, math.MaxInt64))
}

// Limit is the greatest allowed cost over a time, in one currency. Make one with [LimitOf].
type Limit struct {
	price Price
	from  time.Time
	d     time.Duration
	rates Rates
	nanos int64
}

// LimitOf makes a limit from the greatest allowed price for a duration from a time on, so that prices
// for other periods can be compared with it. A limit of 0 allows only free plans. Errors: Invalid at a
// field below field.
func LimitOf(field string, most *api.Price, from time.Time, d time.Duration) (*Limit, error) {
	price, err := Parse(field, most)
	if err != nil {
		return nil, err
	}
	price.Currency, price.Period = most.Currency, most.Period // also of 0
	rates := RatesFor(from, d)
	return &Limit{price, from, d, rates, price.Nanos(1, rates)}, nil
}

// Nanos returns the cost of units at a price over the limit's time, as [Price.Nanos].
func (l *Limit) Nanos(p Price, units int64) int64 { return p.Nanos(units, l.rates) }

// Foreign reports whether a price has another currency, which no limit allows. A free price has none.
func (l *Limit) Foreign(p Price) bool { return !p.Free() && p.Currency != l.price.Currency }

// Allows reports whether units at a price cost at most the limit, exactly.
func (l *Limit) Allows(p Price, units int64) bool {
	if p.Free() || l.Foreign(p) {
		return p.Free()
	}
	if cost := l.Nanos(p, units); cost != l.nanos {
		return cost < l.nanos
	}
	return l.Cost(p, units).Cmp(l.Cost(l.price, 1)) <= 0 // compare as far as rounding shows
}

// Cost returns the exact cost of units at a price over the limit's time.
func (l *Limit) Cost(p Price, units int64) *big.Rat { return p.Cost(units, l.from, l.d) }

// Left returns the part of the limit that a cost in nanos leaves, in parts per million; all if it is free.
func (l *Limit) Left(nanos int64) int64 { return l.part(l.nanos - nanos) }

// Beyond returns the excess of a cost in nanos over the limit, in parts per million of the limit.
func (l *Limit) Beyond(nanos int64) int64 { return l.part(nanos - l.nanos) }

func (l *Limit) part(nanos int64) int64 {
	if nanos <= 0 && l.nanos > 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(max(nanos, 0)), 1_000_000)
	if high >= uint64(max(l.nanos, 1)) {
		return math.MaxInt64
	}
	part, _ := bits.Div64(high, low, uint64(max(l.nanos, 1)))
	return int64(min(part, math.MaxInt64))
}

// Text formats the limit for users.
func (l *Limit) Text() string { return l.price.Text() }

// periods returns the number of periods in a duration from a time on.
func periods(p api.Period, from time.Time, d time.Duration) *big.Rat {
	if d <= 0 || p == "" {
		return new(big.Rat)
	}
	if length, fixed := seconds[p]; fixed {
		return big.NewRat(int64(d), length*int64(time.Second))
	}
	months := 1
	if p == api.PeriodYear {
		months = 12
	}
	end := from.Add(d)
	n := 0
	for ; !anniversary(from, (n+1)*months).After(end); n++ {
	}
	begins, ends := anniversary(from, n*months), anniversary(from, (n+1)*months)
	part := big.NewRat(int64(end.Sub(begins)), int64(ends.Sub(begins)))
	return part.Add(part, new(big.Rat).SetInt64(int64(n)))
}

// anniversary returns the time a number of months later: on the same day, or on the last day of a
// shorter month.
func anniversary(t time.Time, months int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1,
		t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

// mostDigits is how many digits after the point a text has at most. Prices have as many.
const mostDigits = 9

// Text formats an amount for users, rounded half up to the currency's minor unit: "12.50". Less than half
// of that unit gets as many digits as it needs, because no debt is 0: "0.003".
func Text(amount *big.Rat, code string) string {
	digits := 2
	if unit, err := currency.ParseISO(code); err == nil {
		digits, _ = currency.Standard.Rounding(unit)
	}
	text := amount.FloatString(digits)
	for amount.Sign() != 0 && !strings.ContainsAny(text, "123456789") {
		if digits++; digits > mostDigits { // less than the smallest price
			return strings.TrimSuffix(text, "0") + "1"
		}
		text = amount.FloatString(digits)
	}
	return text
}

// shortPeriods lists abbreviations of periods.
var shortPeriods = map[string]api.Period{"m": api.PeriodMinute,
	"min": api.PeriodMinute, "h": api.PeriodHour, "d": api.PeriodDay, "w": api.PeriodWeek, "y": api.PeriodYear}

// Read reads a price as users write it: "0.35EUR/hour", "3 EUR/h". Errors: Invalid at field.
func Read(field, text string) (*api.Price, error) {
	amount, period, ok := strings.Cut(text, "/")
	i := strings.IndexFunc(amount, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if !ok || i < 1 {
		return nil, api.Invalid(field, "%.40q is not a price", text).Fix("write for example 0.35EUR/hour")
	}
	p := &api.Price{Amount: amount[:i], Currency: strings.TrimSpace(amount[i:]), Period: api.Period(period)}
	if long, short := shortPeriods[period]; short {
		p.Period = long
	}
	_, err := Parse(field, p)
	return p, err
}

// Text formats a price for users, exactly: "0.30 EUR/hour", or "free".
func (p Price) Text() string {
	if p.Free() {
		return "free"
	}
	exact := new(big.Rat).SetFrac64(p.Nano, nano)
	amount := strings.TrimSuffix(strings.TrimRight(exact.FloatString(9), "0"), ".")
	if minor := Text(exact, p.Currency); len(amount) < len(minor) {
		amount = minor
	}
	return amount + " " + p.Currency + "/" + string(p.Period)
}
