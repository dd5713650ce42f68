package money_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func price(t testing.TB, amount, currency string, period api.Period) money.Price {
	t.Helper()
	p, err := money.Parse("price", &api.Price{Amount: amount, Currency: currency, Period: period})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		amount, currency string
		period           api.Period
		units            int64
		from, until      string
		want             string
	}{
		{"0.10", "EUR", api.PeriodHour, 2, "2026-11-21T10:00:00Z", "2026-11-21T20:00:00Z", "2.00"},
		{"1", "EUR", api.PeriodMinute, 1, "2026-11-21T10:00:00Z", "2026-11-21T10:00:30Z", "0.50"},
		{"7", "EUR", api.PeriodWeek, 1, "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z", "1.00"},
		{"24", "EUR", api.PeriodDay, 3, "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "3.00"},
		// A month of the calendar is a month, however long it is; half of it is half.
		{"30", "EUR", api.PeriodMonth, 1, "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z", "30.00"},
		{"31", "EUR", api.PeriodMonth, 1, "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "1.00"},
		{"30", "EUR", api.PeriodMonth, 1, "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "30.00"},
		{"30", "EUR", api.PeriodMonth, 1, "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z", "60.00"},
		{"365", "EUR", api.PeriodYear, 1, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "1.00"},
		// until 2028-03-01: with a 29th of February
		{"366", "EUR", api.PeriodYear, 1, "2027-03-01T00:00:00Z", "2027-03-02T00:00:00Z", "1.00"},
		{"100", "JPY", api.PeriodHour, 1, "2026-11-21T10:00:00Z", "2026-11-21T10:20:00Z", "33"},
		{"1", "KWD", api.PeriodHour, 1, "2026-11-21T10:00:00Z", "2026-11-21T10:20:00Z", "0.333"},
		{"0.000000001", "EUR", api.PeriodYear, 1, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "0.000000001"},
	} {
		p := price(t, c.amount, c.currency, c.period)
		got := money.Text(p.Cost(c.units, at(c.from), at(c.until).Sub(at(c.from))), c.currency)
		if got != c.want {
			t.Errorf("%d units at %s from %s to %s: %s, want %s", c.units, p.Text(), c.from, c.until, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, p := range []api.Price{
		{Amount: "", Currency: "EUR", Period: "hour"}, {Amount: "-1",
			Currency: "EUR", Period: "hour"}, {Amount: "1e3", Currency: "EUR", Period: "hour"},
		{Amount: "01", Currency: "EUR", Period: "hour"}, {Amount: "1.",
			Currency: "EUR", Period: "hour"}, {Amount: ".5", Currency: "EUR", Period: "hour"},
		{Amount: "1.0000000001", Currency: "EUR", Period: "hour"}, {Amount: "1000000000",
			Currency: "EUR", Period: "hour"}, {Amount: "1,5", Currency: "EUR", Period: "hour"},
		{Amount: "1", Currency: "eur", Period: "hour"}, {Amount: "1", Currency: "EURO",
			Period: "hour"}, {Amount: "1", Currency: "", Period: "hour"}, {Amount: "1", Currency: "QQQ", Period: "hour"},
		{Amount: "1", Currency: "EUR", Period: "fortnight"}, {Amount: "1", Currency: "EUR"},
	} {
		if got, err := money.Parse("price", &p); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%+v is %+v, %v", p, got, err)
		}
	}
	if free, err := money.Parse("price", nil); err != nil || !free.Free() || free.Text() != "free" {
		t.Errorf("no price is %+v, %v", free, err)
	}
}

func TestText(t *testing.T) {
	for amount, want := range map[string]string{"0.3": "0.30 EUR/hour",
		"2": "2.00 EUR/hour", "0.125": "0.125 EUR/hour", "0": "free"} {
		if got := price(t, amount, "EUR", api.PeriodHour).Text(); got != want {
			t.Errorf("%s is written %s, want %s", amount, got, want)
		}
	}
	// which has no minor unit
	for amount, want := range map[string]string{"3": "3 JPY/day", "1500": "1500 JPY/day", "0.5": "0.5 JPY/day"} {
		if got := price(t, amount, "JPY", api.PeriodDay).Text(); got != want {
			t.Errorf("%s is written %s, want %s", amount, got, want)
		}
	}
}

// A debt is never shown as 0.
func TestTextOfLittle(t *testing.T) {
	for _, c := range []struct {
		nanos, parts   int64
		currency, want string
	}{
		{0, 1, "EUR", "0.00"}, {5_000_000, 1, "EUR", "0.01"}, {4_999_999, 1, "EUR", "0.005"}, {3_000_000, 1, "EUR", "0.003"},
		{-3_000_000, 1, "EUR", "-0.003"}, {400_000_000, 1, "JPY", "0.4"}, {0, 1, "JPY", "0"}, {600_000_000, 1, "JPY", "1"},
		{1, 1, "EUR", "0.000000001"}, {1, 1_000_000, "EUR", "0.000000001"}, {-1, 1_000_000, "EUR", "-0.000000001"},
	} {
		if got := money.Text(big.NewRat(c.nanos, c.parts*1_000_000_000), c.currency); got != c.want {
			t.Errorf("%d/%d nano %s is written %s, want %s", c.nanos, c.parts, c.currency, got, c.want)
		}
	}
}

func arbitrary(t *rapid.T) money.Price {
	nano := rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "nano")
	period := rapid.SampledFrom([]api.Period{api.PeriodMinute, api.PeriodHour,
		api.PeriodDay, api.PeriodWeek, api.PeriodMonth, api.PeriodYear}).Draw(t, "period")
	return money.Price{Nano: nano, Currency: "EUR", Period: period}
}

// Money is exact: cut a contract into any pieces, and they come to what the whole does. It never
// falls as time goes on, and what prices are compared by is what they are.
func TestCostAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, units := arbitrary(t), rapid.Int64Range(1, 1_000_000).Draw(t, "units")
		begun := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "begun"), 0).UTC()
		whole := time.Duration(rapid.Int64Range(1, int64(8760*time.Hour)).Draw(t, "whole"))
		cuts := []time.Duration{0, whole}
		for range rapid.IntRange(0, 4).Draw(t, "cuts") {
			cuts = append(cuts, time.Duration(rapid.Int64Range(0, int64(whole)).Draw(t, "cut")))
		}
		sum := new(big.Rat)
		for from := time.Duration(0); from < whole; {
			next := whole
			for _, cut := range cuts {
				if cut > from && cut < next {
					next = cut
				}
			}
			piece := p.Between(units, begun, begun.Add(from), begun.Add(next))
			if piece.Sign() < 0 {
				t.Fatalf("from %s to %s costs %s", from, next, piece)
			}
			sum, from = new(big.Rat).Add(sum, piece), next
		}
		cost := p.Cost(units, begun, whole)
		if cost.Cmp(sum) != 0 {
			t.Fatalf("the whole is %s, its pieces %s", cost, sum)
		}
		nanos := new(big.Rat).SetInt64(p.Nanos(units, money.RatesFor(begun, whole)))
		exact := new(big.Rat).Mul(cost, new(big.Rat).SetInt64(1_000_000_000))
		if rest := new(big.Rat).Sub(exact, nanos); rest.Sign() < 0 ||
			nanos.Num().IsInt64() && nanos.Num().Int64() < 1<<62 && rest.Cmp(new(big.Rat).SetInt64(1)) >= 0 {
			t.Fatalf("it is compared by %s, and is %s", nanos, exact)
		}
	})
}

func TestRead(t *testing.T) {
	for text, want := range map[string]api.Price{
		"3EUR/hour": {Amount: "3", Currency: "EUR", Period: api.PeriodHour}, "0.35 EUR/h": {Amount: "0.35",
			Currency: "EUR", Period: api.PeriodHour},
		"0JPY/month": {Amount: "0", Currency: "JPY", Period: api.PeriodMonth}, "1CHF/d": {Amount: "1",
			Currency: "CHF", Period: api.PeriodDay},
	} {
		if got, err := money.Read("--max-price", text); err != nil || *got != want {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "3EUR", "EUR/hour", "3eur/hour",
		"3EUR/fortnight", "3,5EUR/hour", "-3EUR/hour", "3 EUR / hour", "1.EUR/h", "3€/hour", "9999999999EUR/hour"} {
		if got, err := money.Read("--max-price", text); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

// A limit allows every price that is not higher, to the last fraction and for all periods, and no price in another
// currency.
func TestLimitIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, p := arbitrary(t), arbitrary(t)
		units := rapid.Int64Range(1, 1_000_000).Draw(t, "units")
		if rapid.Bool().Draw(t, "the same but for the last digit") {
			units, p = 1, most
			p.Nano += rapid.Int64Range(-1, 1).Draw(t, "by")
			p.Nano = max(p.Nano, 0)
		}
		from := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "from"), 0).UTC()
		d := time.Duration(rapid.Int64Range(1, int64(8760*time.Hour)).Draw(t, "d"))
		amount := new(big.Rat).SetFrac64(most.Nano, 1_000_000_000).FloatString(9)
		limit, err := money.LimitOf("maxPrice", &api.Price{Amount: amount, Currency: "EUR", Period: most.Period}, from, d)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := limit.Allows(p, units), p.Cost(units, from, d).Cmp(most.Cost(1, from, d)) <= 0; got != want {
			t.Fatalf("%d at %s under %s for %s: %v, want %v", units, p.Text(), most.Text(), d, got, want)
		}
		left := limit.Left(limit.Nanos(p, units))
		if left < 0 || left > 1_000_000 || p.Free() && most.Nano > 0 && limit.Nanos(most, 1) > 0 && left != 1_000_000 {
			t.Fatalf("%d millionths are left", left)
		}
		p.Currency = "USD"
		if limit.Allows(p, units) != p.Free() {
			t.Fatal("a limit in euros allows dollars")
		}
	})
}
