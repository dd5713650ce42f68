package market_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts/amountstest"
	"github.com/bourse-dev/bourse/internal/market"
)

func measurement(pools map[string]api.Pool) api.Measurement {
	return api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1}, Terms: &api.Terms{}, Pools: pools}
}

var invalid = amountstest.CheckInvalid

// The disks of a thousand nodes are advertised.
func TestDisksOfALargeCluster(t *testing.T) {
	disks := resources("ephemeral-storage", "4Pi")
	if _, err := market.Measure(measurement(map[string]api.Pool{"general": {Capacity: disks, Allocatable: disks,
		Shared: disks}})); err != nil {
		t.Error(err)
	}
}

func TestOffered(t *testing.T) {
	for _, c := range []struct{ allocatable, allocated, shared, offered string }{
		{"10", "2", "8", "8"},
		{"10", "4", "8", "6"},
		{"10", "12", "8", "-2"}, // its own pods took more than there is
		{"10", "0", "0", "0"},
		{"0", "0", "8", "0"},
	} {
		m, err := market.Measure(measurement(map[string]api.Pool{"general": {
			Allocatable: resources("cpu", c.allocatable, "memory", "1Gi"), Allocated: resources("cpu",
				c.allocated), Shared: resources("cpu", c.shared)}}))
		if err != nil {
			t.Fatal(err)
		}
		q := resources("cpu", c.offered)["cpu"]
		if got := m.Pools["general"].Offered; len(got) != 1 || got.Of("cpu") != q.MilliValue() {
			t.Errorf("%+v: offered %v", c, got)
		}
	}
}

func TestHostileMeasurements(t *testing.T) {
	pool := func(p api.Pool) api.Measurement { return measurement(map[string]api.Pool{"general": p}) }
	account := func(consumer string, use api.AccountUse) api.Measurement {
		return pool(api.Pool{Accounts: map[string]api.AccountUse{consumer: use}})
	}
	commitments := func(n int, of func(i int) api.Resources) api.AccountUse {
		use := api.AccountUse{Commitments: map[string]api.Resources{}}
		for i := range n {
			use.Commitments[fmt.Sprintf("r%d", i)] = of(i)
		}
		return use
	}
	most := func(int) api.Resources { return resources("cpu", "1152921504606846") }
	for name, c := range map[string]struct {
		given api.Measurement
		field string
	}{
		"no sequence":          {api.Measurement{}, "sequence"},
		"a negative sequence":  {api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: -1}}, "sequence"},
		"17 pools":             {measurement(manyPools(17)), "pools"},
		"a pool's name":        {measurement(map[string]api.Pool{"General Pool": {}}), "pools"},
		"negative shared":      {pool(api.Pool{Shared: resources("cpu", "-1")}), "pools.general.shared.cpu"},
		"negative capacity":    {pool(api.Pool{Capacity: resources("cpu", "-1")}), "pools.general.capacity.cpu"},
		"negative allocatable": {pool(api.Pool{Allocatable: resources("cpu", "-1")}), "pools.general.allocatable.cpu"},
		"negative allocated":   {pool(api.Pool{Allocated: resources("cpu", "-1")}), "pools.general.allocated.cpu"},
		"absurd shared":        {pool(api.Pool{Shared: resources("cpu", "1e30")}), "pools.general.shared.cpu"},
		"a consumer's name":    {account("Paris\x00", api.AccountUse{}), "pools.general.accounts"},
		"a reservation's name": {account("paris", api.AccountUse{Commitments: map[string]api.Resources{"../r": nil}}),
			"pools.general.accounts.paris.commitments"},
		"negative use": {account("paris", api.AccountUse{Used: resources("cpu", "-1")}),
			"pools.general.accounts.paris.used.cpu"},
		"a negative commitment": {account("paris", commitments(1, func(int) api.Resources { return resources("cpu", "-1") })),
			"pools.general.accounts.paris.commitments.r0.cpu"},
		"a sum that overflows": {account("paris", commitments(16, most)), "pools.general.accounts"}, // to 0, in 64 bits
		"too many of them":     {account("paris", commitments(100_001, func(int) api.Resources { return nil })), "pools"},
		"10,001 accounts":      {pool(api.Pool{Accounts: manyAccounts(10_001)}), "pools"},
		"10,002 in two pools": {measurement(map[string]api.Pool{"a": {Accounts: manyAccounts(5001)},
			"b": {Accounts: manyAccounts(5001)}}), "pools"},
		"4,097 plans": {account("paris", plans(4097)), "pools"},
		"a plan's name": {account("paris", api.AccountUse{Commitments: map[string]api.Resources{"r": nil},
			Sold: map[string]api.SoldUnits{"r": {Offer: "web", Plan: "A b"}}}), "pools.general.accounts.paris.sold.r"},
		"65 kinds of use": {account("paris", commitments(65, func(i int) api.Resources {
			return resources(fmt.Sprintf("example.com/r%d", i), "1")
		})), "pools.general.accounts"},
		"nobody's account": {account("", api.AccountUse{}), "pools.general.accounts"},
		"a negative sum elsewhere": {pool(api.Pool{Elsewhere: &api.Elsewhere{Reserved: resources("cpu", "-1")}}),
			"pools.general.elsewhere.reserved.cpu"},
		"negative use elsewhere": {pool(api.Pool{Elsewhere: &api.Elsewhere{Used: resources("cpu", "-1")}}),
			"pools.general.elsewhere.used.cpu"},
		"a plan's name elsewhere": {pool(api.Pool{Elsewhere: &api.Elsewhere{Sold: []api.SoldUnits{{Offer: "web", Plan: "A b"}}}}),
			"pools.general.elsewhere.sold"},
		"negative units elsewhere": {pool(api.Pool{Elsewhere: &api.Elsewhere{
			Sold: []api.SoldUnits{{Offer: "web", Plan: "small", Units: -1}}}}), "pools.general.elsewhere.sold"},
		"negative terms": {api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1},
			Terms: &api.Terms{MaxPerReservation: resources("cpu", "-1")}}, "terms.maxPerReservation.cpu"},
		"absurd terms": {api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1},
			Terms: &api.Terms{MaxPerConsumer: resources("cpu", "1e30")}}, "terms.maxPerConsumer.cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := market.Measure(c.given)
			if m != nil {
				t.Errorf("measured as %s", dump(m))
			}
			invalid(t, err, c.field)
			if c.given.Sequence.Number < 1 || strings.HasPrefix(c.field, "terms") {
				return
			}
			// The same as a delta.
			first, err := market.Measure(measurement(nil))
			if err != nil {
				t.Fatal(err)
			}
			delta := api.MeasurementDelta{Base: first.Sequence, Sequence: api.Sequence{Incarnation: 1, Number: 2},
				Pools: map[string]*api.PoolDelta{}}
			for name, p := range c.given.Pools {
				delta.Pools[name] = &api.PoolDelta{Capacity: p.Capacity,
					Allocatable: p.Allocatable, Allocated: p.Allocated, Shared: p.Shared, Accounts: pointers(p.Accounts),
					Elsewhere: p.Elsewhere}
			}
			_, err = first.Change(delta)
			invalid(t, err, c.field)
		})
	}
}

func manyPools(n int) map[string]api.Pool {
	out := map[string]api.Pool{}
	for i := range n {
		out[fmt.Sprintf("p%d", i)] = api.Pool{}
	}
	return out
}

func manyAccounts(n int) map[string]api.AccountUse {
	out := map[string]api.AccountUse{}
	for i := range n {
		out[fmt.Sprintf("c%d", i)] = api.AccountUse{}
	}
	return out
}

func pointers(accounts map[string]api.AccountUse) map[string]*api.AccountUse {
	out := map[string]*api.AccountUse{}
	for consumer, a := range accounts {
		out[consumer] = &a
	}
	return out
}

func TestStaleAdvertisements(t *testing.T) {
	d := newTestBroker(t)
	say := func(incarnation, number int64) error {
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: incarnation, Number: number}})
		if err != nil {
			t.Fatal(err)
		}
		return d.observe("rome", m, d.now)
	}
	for _, c := range []struct {
		incarnation, number int64
		want                api.Code
	}{
		{1, 1, api.CodeStaleAdvertisement}, // that is what it said when the desk opened
		{1, 3, ""}, {1, 2, api.CodeStaleAdvertisement}, {1, 3, api.CodeStaleAdvertisement},
		{2, 1, ""}, {1, 9, api.CodeStaleAdvertisement}, {2, 2, ""},
	} {
		if err := say(c.incarnation, c.number); (err == nil) != (c.want == "") || err != nil && api.CodeOf(err) != c.want {
			t.Errorf("%d.%d: %v, want %q", c.incarnation, c.number, err, c.want)
		}
	}
	m := d.listing("rome").Measured
	if _, err := m.Change(api.MeasurementDelta{Base: api.Sequence{Incarnation: 2,
		Number: 1}}); api.CodeOf(err) != api.CodeStaleAdvertisement {
		t.Errorf("a delta on an old base: %v", err)
	}
	if _, err := (*market.Measured)(nil).Change(api.MeasurementDelta{}); api.CodeOf(err) != api.CodeStaleAdvertisement {
		t.Errorf("a delta on nothing: %v", err)
	}
}

// A chain of deltas leads to what one whole advertisement would have said, and to the same books, and
// changes no measurement before it.
func TestDeltas(t *testing.T) {
	amounts := rapid.Custom(func(t *rapid.T) api.Resources {
		if rapid.Bool().Draw(t, "left as it is") {
			return nil
		}
		out := api.Resources{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"cpu", "memory", "pods"}),
			rapid.ID).Draw(t, "resources") {
			out[resourceName(name)] = quantity(rapid.Int64Range(0, 5).Draw(t, "amount"))
		}
		return out
	})
	rapid.Check(t, func(t *rapid.T) {
		s, whole := market.New(""), measurement(map[string]api.Pool{})
		m, err := market.Measure(whole)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 10).Draw(t, "deltas") {
			delta := api.MeasurementDelta{Base: whole.Sequence, Pools: map[string]*api.PoolDelta{}}
			whole.Sequence.Number++
			delta.Sequence = whole.Sequence
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"general", "gpu"}),
				rapid.ID).Draw(t, "pools") {
				if rapid.IntRange(0, 4).Draw(t, "gone") == 4 {
					delta.Pools[name] = nil
					delete(whole.Pools, name)
					continue
				}
				d := &api.PoolDelta{Allocatable: amounts.Draw(t, "allocatable"), Allocated: amounts.Draw(t, "allocated"),
					Shared: amounts.Draw(t, "shared"), Capacity: amounts.Draw(t, "capacity"), Accounts: map[string]*api.AccountUse{}}
				p := whole.Pools[name]
				for to, from := range map[*api.Resources]api.Resources{&p.Allocatable: d.Allocatable,
					&p.Allocated: d.Allocated, &p.Shared: d.Shared, &p.Capacity: d.Capacity} {
					if from != nil {
						*to = from
					}
				}
				accounts := map[string]api.AccountUse{}
				for consumer, a := range p.Accounts {
					accounts[consumer] = a
				}
				for _, consumer := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"paris", "lyon"}),
					rapid.ID).Draw(t, "accounts") {
					if rapid.Bool().Draw(t, "closed") {
						d.Accounts[consumer] = nil
						delete(accounts, consumer)
						continue
					}
					use := api.AccountUse{Used: amounts.Draw(t, "used"),
						Commitments: map[string]api.Resources{"r": amounts.Draw(t, "committed")}}
					d.Accounts[consumer], accounts[consumer] = &use, use
				}
				if p.Accounts = accounts; len(accounts) == 0 {
					p.Accounts = nil
				}
				delta.Pools[name], whole.Pools[name] = d, p
			}
			before := dump(m)
			next, err := m.Change(delta)
			if err != nil {
				t.Fatal(err)
			}
			if after := dump(m); after != before {
				t.Fatalf("a delta changed what it is based on from %s to %s", before, after)
			}
			m = next
			want, err := market.Measure(whole)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := plain(m), plain(want); got != want {
				t.Fatalf("deltas led to\n%s\nthe whole is\n%s", got, want)
			}
			fresh := market.New("")
			if err := errors.Join(s.Observe("rome", m, noon, true), fresh.Observe("rome", want, noon, true)); err != nil {
				t.Fatal(err)
			}
			if got, want := plain(s.Publish(nil).Listing("rome").Pools), plain(fresh.Publish(nil).Listing("rome").Pools); got != want || s.Imbalance() != 0 {
				t.Fatalf("deltas led to books with\n%s\nthe whole to\n%s", got, want)
			}
		}
	})
}

// plain dumps without the difference between nothing and empty.
func plain(v any) string {
	return strings.NewReplacer(`[]`, "null", `{}`, "null").Replace(dump(v))
}

// A measurement is checkpointed as JSON: what is read again is what was written.
func TestMeasuredIsWrittenWhole(t *testing.T) {
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 3, Number: 7},
		Terms:    &api.Terms{Allow: "true", MaxPerConsumer: resources("cpu", "2"), MaxPerReservation: resources("cpu", "1")},
		Pools: map[string]api.Pool{"general": {
			Capacity: resources("cpu", "8"), Allocatable: resources("cpu",
				"7"), Allocated: resources("cpu", "2"), Shared: resources("cpu", "4"),
			Accounts: map[string]api.AccountUse{"rome": {
				Commitments: map[string]api.Resources{"r-1": resources("cpu", "1")}, Used: resources("cpu", "500m"),
				Sold: map[string]api.SoldUnits{"r-1": {Offer: "web", Plan: "small", Units: 2}},
			}},
			Shapes: []api.Shape{{Free: resources("cpu", "3"), Nodes: 2}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again *market.Measured
	if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(m, again) {
		t.Errorf("%s\nbecomes %+v, %v\nwant %+v", data, again, err, m)
	}
}

// plans are as many commitments, each of another plan.
func plans(n int) api.AccountUse {
	a := api.AccountUse{Commitments: map[string]api.Resources{}, Sold: map[string]api.SoldUnits{}}
	for i := range n {
		id := fmt.Sprint("r", i)
		a.Commitments[id], a.Sold[id] = nil, api.SoldUnits{Offer: "web", Plan: fmt.Sprint("p", i), Units: 1}
	}
	return a
}
