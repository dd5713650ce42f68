package market_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// The account of a consumer: max(Σ over the union by ID of max(its size here, the provider's size), used).
func TestAccount(t *testing.T) {
	listed := func(used string, pairs ...string) map[string]api.AccountUse {
		use := api.AccountUse{Commitments: map[string]api.Resources{}}
		for i := 0; i < len(pairs); i += 2 {
			use.Commitments[pairs[i]] = resources("cpu", pairs[i+1])
		}
		if used != "" {
			use.Used = resources("cpu", used, "pods", "9")
		}
		return map[string]api.AccountUse{"paris": use}
	}
	for name, c := range map[string]struct {
		held     []int64 // cores of r0, r1, ... in our books
		accounts map[string]api.AccountUse
		reserved int64
	}{
		"nothing":                           {nil, nil, 0},
		"ours alone":                        {[]int64{2, 3}, nil, 5000},
		"theirs alone":                      {nil, listed("", "x", "2"), 2000},
		"heard of twice counts once":        {[]int64{2}, listed("", "r0", "2"), 2000},
		"another one adds up":               {[]int64{2}, listed("", "x", "2"), 4000},
		"the larger counts, theirs":         {[]int64{2}, listed("", "r0", "3"), 3000},
		"the larger counts, ours":           {[]int64{2}, listed("", "r0", "1500m"), 2000},
		"use within commitments is no more": {[]int64{2}, listed("1500m", "r0", "2"), 2000},
		"use above commitments counts":      {[]int64{2}, listed("3", "r0", "2"), 3000},
		"use alone":                         {nil, listed("2"), 2000},
		"an empty account":                  {nil, listed(""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			for i, cores := range c.held {
				d.held("r"+string(rune('0'+i)), cores)
			}
			d.reports("rome", 2, resources("cpu", "8"), c.accounts)
			pool := d.pool("rome")
			if got := pool.Reserved.Of("cpu"); got != c.reserved || pool.Available.Of("cpu") != 8000-c.reserved ||
				pool.Reserved.Of("pods") != 0 {
				t.Errorf("listed as %s, want %d reserved", dump(pool), c.reserved)
			}
			d.reports("rome", 3, resources("cpu", "8"), nil)
			ours := int64(0)
			for _, cores := range c.held {
				ours += cores * 1000
			}
			if got := d.pool("rome").Reserved.Of("cpu"); got != ours {
				t.Errorf("when the provider lists nothing any more, %d are reserved, want our %d", got, ours)
			}
		})
	}
}

// Capacity comes back when the provider no longer lists it, not when our reservation is over.
func TestListedCountsUntilItIsListedNoMore(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.reports("rome", 2, resources("cpu", "8"),
		map[string]api.AccountUse{"paris": {Commitments: map[string]api.Resources{"r": resources("cpu", "5")}}})
	d.must(market.Release{ID: "r", By: "paris", Generation: 1, Document: "end"})
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.want("r", api.Released, "", "rome", 3000)
	d.offers("rome", 3, "8")
	d.want("r", api.Released, "", "rome", 8000)
}

// A provider that shrinks is Overcommitted, and gets nothing new until it has room again.
func TestShrinkingProvider(t *testing.T) {
	for name, shrunk := range map[string]api.Resources{
		"to less":                      resources("cpu", "3"),
		"to nothing":                   resources("cpu", "0"),
		"to what it does not even say": {}, // every node is cordoned: resources with an amount of 0 are left out
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.reserved("r", 5)
			d.reports("rome", 2, shrunk, nil)
			left := shrunk.Cpu().MilliValue() - 5000
			d.want("r", api.Reserved, "", "rome", left)
			if pool := d.pool("rome"); !pool.Available.Negative() {
				t.Errorf("not overcommitted: %s", dump(pool))
			}
			if out := d.must(request("s", 1)); out.Reservation.Provider != "milan" {
				t.Errorf("placed on %s", out.Reservation.Provider)
			}
			d.offers("rome", 3, "7")
			d.held("t", 2)
		})
	}
}

func TestWithdrawnPoolKeepsWhatItOwes(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.observe("rome", m, d.now); err != nil {
		t.Fatal(err)
	}
	d.want("r", api.Reserved, "", "rome", -5000)
	d.must(market.Release{ID: "r", By: "rome", Generation: 1, Document: "end"})
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.check()
	if l := d.listing("rome"); len(l.Pools) > 0 {
		t.Errorf("a pool that is neither offered nor owed is listed: %s", dump(l))
	}
}

// What is reserved of a provider that has said nothing yet, as after a restart, is no overcommitment.
func TestUnmeasuredProviderIsNotOvercommitted(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.restart(len(d.journal))
	if pool := d.pool("rome"); pool.Available != nil || pool.Reserved.Of("cpu") != 5000 {
		t.Errorf("listed as %s", dump(pool))
	}
	d.fails(api.CodeInsufficient, request("s", 1))
	d.offers("rome", 1, "8")
	d.want("r", api.Reserved, "", "rome", 3000)
}

// A sum drops resources with an amount of 0, so that a provider cannot fill it with invented ones.
func TestSumsForget(t *testing.T) {
	d := newTestBroker(t)
	d.held("r", 1)
	for i := range 100 {
		invented := "example.com/r" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		d.reports("rome", int64(i+2), resources("cpu", "8", invented, "1"), map[string]api.AccountUse{
			"paris": {Commitments: map[string]api.Resources{"x": resources(invented, "1")}, Used: resources(invented, "2")}})
	}
	if pool := d.pool("rome"); len(pool.Reserved) != 2 {
		t.Errorf("reserved: %s", dump(pool.Reserved))
	}
}
