package market_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// honoured is the record that others see of a cluster.
func (d *testBroker) honoured(cluster string) int64 { return d.listing(cluster).Honoured }

// others are so many more consumers.
func (d *testBroker) others(n int) (names []string) {
	for i := range n {
		name := fmt.Sprint("buyer-", i)
		d.apply(market.Event{Time: d.now, Member: &market.Member{Cluster: name,
			State: api.MemberActive, Key: "k-" + name, Joined: d.now}})
		names = append(names, name)
	}
	return names
}

// promise takes a reservation of a consumer's on rome to where rome is bound, and Active if it is used.
func (d *testBroker) promise(id, consumer string, used bool) {
	d.t.Helper()
	h := request(id, 1)
	h.Consumer, h.Candidates = consumer, []string{"rome"}
	d.must(h)
	d.must(market.Confirm{ID: id, Consumer: consumer, Generation: 1, Document: "assignment " + id})
	d.must(market.Accept{ID: id, Provider: "rome", Generation: 1, Document: "acceptance " + id})
	if used {
		d.must(market.Activate{ID: id, Consumer: consumer})
	}
}

func (d *testBroker) ends(id, by string) {
	d.t.Helper()
	// for any reason that it claims
	d.must(market.Release{ID: id, By: by, Generation: 1, Reason: api.ReasonEnded, Document: "end of " + id})
	d.must(market.Free{ID: id, Provider: "rome"})
}

func (d *testBroker) promisesOf(id string) string {
	switch p := d.state.Reservation(id).Promise; {
	case p == nil:
		return "none"
	case p.Kept:
		return "kept by " + p.Provider
	default:
		return "broken by " + p.Provider
	}
}

// Whether a promise was kept does not depend on the reasons that the parties give.
func TestPromises(t *testing.T) {
	for name, c := range map[string]struct {
		story func(d *testBroker)
		want  string
	}{
		"ended by its time": {func(d *testBroker) {
			d.promise("r",
				"paris", true)
			d.pass(time.Hour + time.Second)
		}, "kept by rome"},
		"ended by its consumer": {func(d *testBroker) { d.promise("r", "paris", true); d.ends("r", "paris") },
			"kept by rome"},
		"ended by its provider": {func(d *testBroker) { d.promise("r", "paris", true); d.ends("r", "rome") },
			"broken by rome"},
		"ended by its provider, before it was used": {func(d *testBroker) { d.promise("r", "paris", false); d.ends("r", "rome") },
			"broken by rome"},
		"ended by its provider, which heard too late that a broker which was away had recorded it": {func(d *testBroker) {
			d.promise("r", "paris", false)
			d.now += market.Time((market.HoldTime + market.SkewGrace).Milliseconds())
			d.sleep(d.now)
			d.ends("r", "rome")
		}, "none"},
		"ended by its provider, soon after the broker recorded it": {func(d *testBroker) {
			d.sleep(d.now)
			d.promise("r", "paris", false)
			d.now += market.Time((market.HoldTime).Milliseconds())
			d.ends("r", "rome")
		}, "broken by rome"},
		"ended by its provider, used, when the broker was back": {func(d *testBroker) {
			d.promise("r", "paris", true)
			d.now += market.Time((market.HoldTime + market.SkewGrace).Milliseconds())
			d.sleep(d.now)
			d.ends("r", "rome")
		}, "broken by rome"},
		"ended by its provider at its end": {func(d *testBroker) {
			d.promise("r", "paris", true)
			d.now += market.Time((time.Hour - market.SkewGrace).Milliseconds())
			d.ends("r", "rome")
		}, "kept by rome"},
		"ended by both": {func(d *testBroker) {
			d.promise("r", "paris", true)
			d.must(market.Release{ID: "r", By: "paris", Generation: 1, Document: "end"})
			d.must(market.Release{ID: "r", By: "rome", Generation: 1, Document: "another end"})
		}, "kept by rome"},
		"ended by its provider, of who is no member any more": {func(d *testBroker) {
			d.promise("r", "paris", true)
			d.must(market.SetMember{Cluster: "paris", State: api.MemberSuspended})
			d.ends("r", "rome")
		}, "none"},
		"never used": {func(d *testBroker) { d.promise("r", "paris", false); d.pass(time.Hour + time.Second) }, "none"},
		"refused": {func(d *testBroker) {
			d.signed("r", 1)
			d.must(market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonInsufficient})
		}, "none"},
		"refused by its consumer": {func(d *testBroker) {
			d.held("r", 1)
			d.must(market.Refuse{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonUnreachable})
		}, "none"},
		"not signed":   {func(d *testBroker) { d.held("r", 1); d.pass(market.HoldTime) }, "none"},
		"not answered": {func(d *testBroker) { d.signed("r", 1); d.pass(market.HoldTime) }, "broken by rome"},
		"not answered, and signed when the way was nearly over": {func(d *testBroker) {
			d.apply(market.Event{Time: d.now, Member: &market.Member{Cluster: "oslo",
				State: api.MemberActive, Key: "k-oslo", Joined: d.now}})
			h := request("r", 1)
			h.Candidates = []string{"milan", "oslo", "rome"}
			for g := int64(1); g <= 3; g++ {
				for _, c := range []string{"milan", "oslo", "rome"} {
					d.offers(c, 2*g, "8")
				}
				if g == 1 {
					d.must(h)
				}
				d.now = d.state.Reservation("r").HeldUntil - 1
				d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: g, Document: fmt.Sprint("assignment ", g)})
				for _, c := range []string{"milan", "oslo", "rome"} {
					d.offers(c, 2*g+1, "8")
				}
				d.pass(market.HoldTime)
			}
			if r := d.state.Reservation("r"); r.State != api.Failed || r.Provider != "rome" {
				d.t.Errorf("%s", dump(r))
			}
		}, "broken by oslo"},
		"not answered while the broker has just come back": {func(d *testBroker) {
			d.signed("r", 1)
			d.sleep(d.now)
			d.pass(market.HoldTime)
		}, "none"},
		"not answered by who is silent altogether": {func(d *testBroker) {
			d.now += int64Time(market.Lease) - 30_000
			d.signed("r", 1)
			d.pass(market.HoldTime)
		}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.wake(d.now)
			c.story(d)
			if got := d.promisesOf("r"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// adopts shows the broker, again or for the first time, what a consumer and rome signed for the next month.
func (d *testBroker) adopts(id, consumer string) {
	d.t.Helper()
	d.must(market.Adopt{Size: cpu(1), Document: "assignment " + id,
		Acceptance: "acceptance " + id, Assignment: api.Assignment{
			Reservation: id, Generation: 1, Consumer: consumer, Provider: "rome", Pool: api.GeneralPool, Until: (d.now +
				int64Time(30*24*time.Hour)).Meta(),
		}})
}

// A consumer shows the broker what it has released itself, once the broker has forgotten that. The
// provider's gate says that it is over, which breaks no promise: of what a broker adopts it does
// not know what happened before.
func TestOldDocumentsRuinNoRecord(t *testing.T) {
	d := newTestBroker(t)
	d.wake(d.now)
	buyers := d.others(5)
	for i, buyer := range buyers {
		d.promise("r-"+buyer, buyer, true)
		d.ends("r-"+buyer, buyer)
		d.pass(time.Minute)
		d.offers("rome", int64(2+i), "8")
	}
	if got := d.honoured("rome"); got != 1_000_000 {
		t.Fatalf("five kept promises are a record of %d", got)
	}
	d.pass(market.Retention + time.Hour)
	for _, buyer := range buyers {
		if d.state.Reservation("r-"+buyer) != nil {
			t.Fatal("the broker has not forgotten it")
		}
		d.adopts("r-"+buyer, buyer)
		d.must(market.Activate{ID: "r-" + buyer, Consumer: buyer})
		d.ends("r-"+buyer, "rome")
		if got := d.promisesOf("r-" + buyer); got != "none" {
			t.Errorf("%s: %s", buyer, got)
		}
	}
	if got := d.honoured("rome"); got != 1_000_000 {
		t.Errorf("after old documents were shown again: %d", got)
	}
}

func int64Time(d time.Duration) market.Time { return market.Time(d.Milliseconds()) }

// However much passes between the same two in a day, it counts once for and once against; the
// record is known from five on, is the same after a restart and from a snapshot, and what is older
// than 30 days is forgotten.
func TestOneVoiceADay(t *testing.T) {
	d := newTestBroker(t)
	d.wake(d.now)
	for i := range 6 {
		d.promise(fmt.Sprint("paris-", i), "paris", true)
		d.ends(fmt.Sprint("paris-", i), "rome")
	}
	if got := d.honoured("rome"); got != market.UnknownRecord {
		t.Errorf("one consumer makes a record of %d", got)
	}
	for _, buyer := range d.others(4) {
		for i := range 2 {
			id := fmt.Sprint(buyer, "-", i)
			d.promise(id, buyer, true)
			d.ends(id, buyer)
		}
	}
	if got := d.honoured("rome"); got != 800_000 {
		t.Errorf("four kept of five: %d", got)
	}
	snapshot, err := market.Encoded(d.state)
	if err != nil {
		t.Fatal(err)
	}
	restored := market.New("")
	if err := restored.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if got := restored.Publish(nil).Listing("rome").Honoured; got != 800_000 {
		t.Errorf("restored it is %d", got)
	}
	d.restart(len(d.journal))
	if got := d.honoured("rome"); got != 800_000 {
		t.Errorf("after a restart it is %d", got)
	}
	d.now += int64Time(24 * time.Hour)
	d.offers("rome", 9, "8")
	d.promise("another-day", "paris", true)
	d.ends("another-day", "rome")
	if got := d.honoured("rome"); got != 666_666 {
		t.Errorf("four kept of six: %d", got)
	}
	d.now += int64Time(29 * 24 * time.Hour)
	d.offers("rome", 10, "8")
	d.promise("much-later", "paris", true)
	d.ends("much-later", "paris")
	if got := d.honoured("rome"); got != market.UnknownRecord {
		t.Errorf("two in 30 days are a record of %d", got)
	}
	d.must(market.SetMember{Cluster: "rome", State: api.MemberRemoved})
	if got := d.honoured("rome"); got != market.UnknownRecord {
		t.Errorf("who was removed has a record of %d", got)
	}
}

// No sequence of holds, signatures, refusals and ends of one consumer counts against a provider that answers in
// time and ends nothing itself.
func TestAConsumerRuinsNoRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newTestBroker(t)
		d.wake(d.now)
		number := int64(1)
		for i := range rapid.IntRange(1, 40).Draw(rt, "acts") {
			id := fmt.Sprint("r-", rapid.IntRange(0, i).Draw(rt, "which"))
			r := d.state.Reservation(id)
			if r == nil {
				h := request(id, 1)
				h.Candidates = []string{"rome", "milan"}
				_, _ = d.do(h, d.now)
				continue
			}
			commands := []market.Command{
				market.Confirm{ID: id, Consumer: "paris", Generation: r.Generation, Document: "assignment of " + id},
				market.Refuse{ID: id, By: "paris", Generation: r.Generation, Reason: api.ReasonUnreachable},
				market.Release{ID: id, By: "paris", Generation: r.Generation, Reason: api.ReasonRevokedByProvider, Document: "end"},
				market.Activate{ID: id, Consumer: "paris"},
			}
			_, _ = d.do(rapid.SampledFrom(commands).Draw(rt, "act"), d.now)
			if r = d.state.Reservation(id); r.State == api.Held && r.Assignment != "" { // the provider's answer
				if rapid.Bool().Draw(rt, "yes") {
					d.must(market.Accept{ID: id, Provider: r.Provider, Generation: r.Generation, Document: "acceptance of " + id})
				} else {
					d.must(market.Refuse{ID: id, By: r.Provider, Generation: r.Generation, Reason: api.ReasonInsufficient})
				}
			}
			d.pass(rapid.SampledFrom([]time.Duration{0, time.Second, 59 * time.Second, 20 * time.Minute}).Draw(rt, "time"))
			number++
			d.offers("rome", number, "8")
			d.offers("milan", number, "8")
		}
		for _, r := range d.state.All() {
			if r.Promise != nil && !r.Promise.Kept {
				rt.Fatalf("broken by %s: %s", r.Promise.Provider, dump(r))
			}
		}
	})
}
