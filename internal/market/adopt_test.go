package market_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// agreed is what paris and a provider signed without this broker.
func agreed(id, provider, pool string, size amounts.List, caps market.Caps) market.Adopt {
	r := &market.Reservation{ID: id, Consumer: "paris", Provider: provider, Pool: pool, Size: size, Generation: 1,
		Created: noon, Until: noon + 86_400_000, HeldUntil: noon + 60_000}
	return market.Adopt{Assignment: market.AssignmentOf(r, "ck", "pk"),
		Size: size, Document: "assignment " + id, Acceptance: "acceptance", Caps: caps}
}

// What a consumer agreed with an accomplice counts against its caps, however much it is: it is held
// nothing of an honest provider.
func TestWhatIsAdoptedCountsAgainstCaps(t *testing.T) {
	d := newTestBroker(t)
	four := market.Caps{Resources: cpu(4)}
	refused := 0
	for i := range 9 { // eight of them add up to 2^63
		if _, err := d.do(agreed(fmt.Sprint("a", i), "milan", "general",
			amounts.List{{Resource: "cpu", Value: 1 << 60}}, four), d.now); err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Fatal(err)
			}
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("%d of 9 are refused, whose sum is more than any cluster has", refused)
	}
	h := request("r", 5)
	h.Caps, h.Candidates = four, []string{"rome"}
	d.fails(api.CodeCapReached, h)
	if r := d.state.Reservation("a0"); r.State != api.Reserved || !strings.Contains(r.Message, "caps") {
		t.Errorf("%s", dump(r))
	}
	if n := d.state.Imbalance(); n != 0 {
		t.Errorf("%d pools differ", n)
	}
}

// A cap that is too large to be doubled bounds nothing, and refuses nothing.
func TestAdoptedBelowTheLargestCaps(t *testing.T) {
	for _, most := range []int64{1 << 62, math.MaxInt64} {
		d := newTestBroker(t)
		caps := market.Caps{Reservations: most, Bytes: most}
		if out := d.must(agreed("a", "milan", "general", cpu(1), caps)); out.Reservation.State != api.Reserved ||
			out.Reservation.Message != "" {
			t.Errorf("with caps of %d: %s", most, dump(out.Reservation))
		}
	}
}

// Within the caps nothing is said; beyond them it is taken in, and said; nothing new is held until
// the consumer is below them again.
func TestAdoptedBeyondTheCaps(t *testing.T) {
	d := newTestBroker(t)
	two := market.Caps{Reservations: 2, Resources: cpu(4)}
	for i, want := range []bool{false, false, true, true} {
		out := d.must(agreed(fmt.Sprint("a", i), "milan", "general", cpu(1), two))
		if said := out.Reservation.Message != ""; said != want || out.Reservation.State != api.Reserved {
			t.Errorf("%s", dump(out.Reservation))
		}
	}
	d.fails(api.CodeCapReached, agreed("a4", "milan", "general", cpu(1), two)) // twice as many as it may have
	h := request("r", 1)
	h.Caps, h.Candidates = two, []string{"rome"}
	d.fails(api.CodeCapReached, h)
	for i := range 3 {
		id := fmt.Sprint("a", i)
		d.must(market.Release{ID: id, By: "paris", Generation: 1, Document: "end"})
		d.must(market.Free{ID: id, Provider: "milan"})
	}
	d.must(h)
	d.pass(time.Second)
}

// Accomplices make the market look through no more names and pools than honest clusters have.
func TestAdoptedNamesAreBounded(t *testing.T) {
	d := newTestBroker(t)
	d.fails(api.CodeInvalid, func() market.Adopt {
		var many amounts.List
		for i := range 300 {
			many = append(many, amounts.Amount{Resource: fmt.Sprintf("example.com/r%03d", i), Value: 1})
		}
		return agreed("names", "milan", "general", many, market.Caps{})
	}())
	failed := 0
	for i := range 100 {
		if _, err := d.do(agreed(fmt.Sprint("p", i), "milan", fmt.Sprint("pool-", i), cpu(1), market.Caps{}),
			d.now); api.CodeOf(err) == api.CodeInvalid {
			failed++
		}
	}
	if failed < 30 {
		t.Errorf("milan has %d pools", 100-failed)
	}
}

func TestSumsDoNotOverflow(t *testing.T) {
	most := amounts.List{{Resource: "cpu", Value: math.MaxInt64}}
	least := amounts.List{{Resource: "cpu", Value: math.MinInt64}}
	for name, c := range map[string]struct{ got, want int64 }{
		"more than there is":      {most.Plus(cpu(1)).Of("cpu"), math.MaxInt64},
		"less than there is":      {least.Minus(cpu(1)).Of("cpu"), math.MinInt64},
		"most minus least":        {most.Minus(least).Of("cpu"), math.MaxInt64},
		"a part in another place": {most.Swap(cpu(1), cpu(2)).Of("cpu"), math.MaxInt64 - 1000},
		"what does fit":           {cpu(3).Plus(cpu(4)).Minus(cpu(2)).Of("cpu"), 5000},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}
