package market_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// capped is paris asking for cores under caps.
func capped(id string, cores int64, caps market.Caps) *market.Hold {
	h := request(id, cores)
	h.Key, h.Caps = "key of "+id, caps
	return h
}

func TestCaps(t *testing.T) {
	three, ten := market.Caps{Reservations: 3}, market.Caps{Resources: cpu(10)}
	waits := func(id string, priority int32, caps market.Caps) *market.Hold {
		h := pending(id, 90, priority)
		h.Caps = caps
		return h
	}
	again := capped("z", 1, market.Caps{Reservations: 1})
	again.Key = "key of a"
	for name, c := range map[string]struct {
		given func(*testBroker)
		then  market.Command
		says  string // empty: it may
	}{
		"room for one more": {func(d *testBroker) { d.held("a", 1); d.reserved("b", 1) }, capped("c", 1, three), ""},
		"as many as it may": {func(d *testBroker) { d.held("a", 1); d.signed("b", 1); d.reserved("c", 1) },
			capped("d", 1, three), "may have 3 reservations pending, held and reserved: it has 3, and asks for 1 more"},
		"what ends still is": {func(d *testBroker) { d.reserved("a", 1); d.pass(time.Hour) },
			capped("b", 1, market.Caps{Reservations: 1}), "it has 1,"},
		"what is over is not": {func(d *testBroker) { d.held("a", 1); d.pass(market.HoldTime) },
			capped("b", 1, market.Caps{Reservations: 1}), ""},
		"others' are others'": {func(d *testBroker) { h := request("a", 1); h.Consumer = "milan"; d.must(h) },
			capped("b", 1, market.Caps{Reservations: 1}), ""},
		"a repeat is a repeat": {func(d *testBroker) { d.must(capped("a", 1, three)) }, again, ""},
		"just as much":         {func(d *testBroker) { d.held("a", 6) }, capped("b", 4, ten), ""},
		"too much": {func(d *testBroker) { d.held("a", 6) },
			capped("b", 5, ten), "may have 10 cpu pending, held and reserved: it has 6, and asks for 5 more"},
		"what has no cap": {func(d *testBroker) { d.held("a", 6) },
			capped("b", 5, market.Caps{Resources: amounts.List{{Resource: "memory", Value: 0}}}), ""},
		"more for one member": {func(d *testBroker) {
			d.must(market.SetCaps{Cluster: "paris", Caps: &market.Caps{Resources: cpu(11)}})
			d.held("a", 6)
		}, capped("b", 5, ten), ""},
		"less for one member": {func(d *testBroker) {
			d.must(market.SetCaps{Cluster: "paris", Caps: &market.Caps{Reservations: 1}})
			d.held("a", 1)
		}, capped("b", 1, three), "may have 1 reservations"},
		"what holds for all besides": {func(d *testBroker) {
			d.must(market.SetCaps{Cluster: "paris", Caps: &market.Caps{Reservations: 9}})
			d.held("a", 6)
		}, capped("b", 5, ten), "may have 10 cpu"},
		"as all again": {func(d *testBroker) {
			d.must(market.SetCaps{Cluster: "paris", Caps: &market.Caps{Reservations: 1}})
			d.must(market.SetCaps{Cluster: "paris"})
			d.held("a", 1)
		}, capped("b", 1, three), ""},
		"as many as may wait": {func(d *testBroker) { d.must(pending("a", 90, 0)) },
			waits("b", 0, market.Caps{Pending: 1}), "at most 1 requests of cluster paris may wait, and 1 do"},
		"what need not wait may be more": {func(d *testBroker) { d.must(pending("a", 90, 0)) },
			capped("b", 1, market.Caps{Pending: 1}), ""},
		"what no longer waits does not": {func(d *testBroker) { d.must(pending("a", 90, 0)); d.pass(time.Hour) },
			waits("b", 0, market.Caps{Pending: 1}), ""},
		"what waits is a reservation": {func(d *testBroker) { d.must(pending("a", 90, 0)) },
			capped("b", 1, market.Caps{Reservations: 1}), "it has 1,"},
		"what waits is asked for": {func(d *testBroker) { d.must(pending("a", 9, 0)) }, capped("b", 2, ten), "it has 9,"},
		"a priority":              {func(*testBroker) {}, waits("a", 7, market.Caps{Priority: 7}), ""},
		"above others": {func(*testBroker) {}, waits("a", 8, market.Caps{Priority: 7}),
			"may have priority 7 at most, and this one has 8"},
		"a priority for one member": {func(d *testBroker) {
			d.must(market.SetCaps{Cluster: "paris", Caps: &market.Caps{Priority: 8, Pending: 2}})
			d.must(pending("a", 90, 0))
		}, waits("b", 8, market.Caps{Priority: -1, Pending: 1}), ""},
		"a document that is longer than was reckoned": {func(d *testBroker) { d.held("a", 1) },
			market.Confirm{ID: "a", Consumer: "paris", Generation: 1,
				Document: strings.Repeat("d", 6<<10), Caps: market.Caps{Bytes: 5 << 10}}, "more are asked for"},
		"a document as long as was reckoned": {func(d *testBroker) { d.held("a", 1) },
			market.Confirm{ID: "a", Consumer: "paris", Generation: 1,
				Document: strings.Repeat("d", 1<<10), Caps: market.Caps{Bytes: 1 << 10}}, ""},
		"growing": {func(d *testBroker) { d.reserved("a", 6) },
			market.Reassign{ID: "a", Consumer: "paris", Generation: 2, Size: cpu(8),
				Until: noon + 7_200_000, Document: "more", Caps: market.Caps{Resources: cpu(7)}}, "it has 6, and asks for 2 more"},
		"shrinking, above what it may by now": {func(d *testBroker) { d.reserved("a", 6) },
			market.Reassign{ID: "a", Consumer: "paris", Generation: 2, Size: cpu(5),
				Until: noon + 7_200_000, Document: "less", Caps: market.Caps{Reservations: 1, Resources: cpu(3)}}, ""},
		"a change counts until it is answered": {func(d *testBroker) {
			d.reserved("a", 2)
			d.must(market.Reassign{ID: "a", Consumer: "paris", Generation: 2,
				Size: cpu(8), Until: noon + 7_200_000, Document: "more"})
		}, capped("b", 3, ten), "it has 8,"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.now = noon
			c.given(d)
			d.offers("rome", 9, "30")
			_, err := d.do(c.then, d.now)
			switch {
			case c.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.says != "" && (api.CodeOf(err) != api.CodeCapReached || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v, want %s", err, c.says)
			}
			d.check()
		})
	}
}

// After any commands, no consumer has more than its caps.
func TestCapsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &testBroker{node: newNode(t, ""), now: noon}
		for _, c := range []string{"rome", "paris"} {
			d.apply(market.Event{Time: d.now, Member: &market.Member{Cluster: c,
				State: api.MemberActive, Key: "k-" + c, Joined: d.now}})
		}
		all := resources("cpu", "1000")
		m, err := market.Measure(measurement(map[string]api.Pool{"general": {Capacity: all, Allocatable: all, Shared: all}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.observe("rome", m, d.now); err != nil {
			t.Fatal(err)
		}
		caps := market.Caps{Reservations: 4, Resources: cpu(12)}
		count, cores := int64(0), int64(0)
		for i := range rapid.IntRange(1, 60).Draw(t, "acts") {
			some := func() string { return fmt.Sprintf("r%d", rapid.IntRange(0, i).Draw(t, "which")) }
			switch rapid.IntRange(0, 6).Draw(t, "act") {
			case 0, 1, 2:
				h := capped(fmt.Sprintf("r%d", i), rapid.Int64Range(1, 6).Draw(t, "cores"), caps)
				h.Candidates = []string{"rome"}
				_, err := d.do(h, d.now)
				if beyond := count+1 > caps.Reservations ||
					cores+h.Size.Of("cpu") > 12_000; beyond != (api.CodeOf(err) == api.CodeCapReached) &&
					d.state.Reservation(h.ID) == nil {
					t.Fatalf("%d more, beside %d reservations of %d: %v", h.Size.Of("cpu"), count, cores, err)
				}
			case 3:
				id := some()
				_, _ = d.do(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: "signed"}, d.now)
				_, _ = d.do(market.Accept{ID: id, Provider: "rome", Generation: 1, Document: "yes"}, d.now)
			case 4:
				id := some()
				if r := d.state.Reservation(id); r != nil {
					_, _ = d.do(market.Reassign{ID: id, Consumer: "paris", Generation: r.Latest() + 1,
						Size:  cpu(rapid.Int64Range(1, 9).Draw(t, "to")),
						Until: d.now + 3_600_000, Document: fmt.Sprint("change ", i), Caps: caps}, d.now)
				}
			case 5:
				id := some()
				if r := d.state.Reservation(id); r != nil {
					_, _ = d.do(market.Release{ID: id, By: "paris", Generation: r.Generation, Document: "end"}, d.now)
					_, _ = d.do(market.Free{ID: id, Provider: "rome"}, d.now)
				}
			default:
				d.restart(len(d.journal))
				if err := d.observe("rome", m, d.now); err != nil {
					t.Fatal(err)
				}
			}
			d.check()
			count, cores = 0, 0
			for _, r := range d.state.All() {
				if r.State.Counts() {
					count, cores = count+1, cores+r.Usage().Of("cpu")
				}
			}
			if count > caps.Reservations || cores > caps.Resources.Of("cpu") {
				t.Fatalf("%d reservations of %d milli-cpu", count, cores)
			}
		}
	})
}
