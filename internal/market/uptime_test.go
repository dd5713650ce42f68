package market_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// observatory is a broker's market whose members advertise now and then. Beside it, the slow way:
// every interval in which a member was lost, in times of the broker's clock.
type observatory struct {
	*node
	now         market.Time
	awake, told market.Time
	asleep      bool
	number      int64
	heard       map[string]market.Time // when, soft state
	first       map[string]market.Time
	lost        map[string][]interval
}

type interval struct{ from, until market.Time } // until -1: not over yet

func newObservatory(t rapid.TB, members ...string) *observatory {
	o := &observatory{node: newNode(t, ""), now: noon, asleep: true,
		heard: map[string]market.Time{}, first: map[string]market.Time{}, lost: map[string][]interval{}}
	for _, c := range members {
		o.joins(c)
	}
	return o
}

func (o *observatory) joins(cluster string) {
	o.apply(market.Event{Time: o.now, Member: &market.Member{Cluster: cluster,
		State: api.MemberActive, Key: "k", Joined: o.now}})
}

func (o *observatory) wakes() {
	o.wake(o.now)
	o.asleep = false
}

// advertises is a sign of life of a member.
func (o *observatory) advertises(cluster string) {
	o.number++
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: o.number}})
	if err != nil {
		o.t.Fatal(err)
	}
	if err := o.observe(cluster, m, o.now); err != nil {
		o.t.Fatal(err)
	}
	o.heard[cluster] = o.now
}

// passes lets time pass, and the broker look at the leases.
func (o *observatory) passes(by time.Duration) {
	o.now += market.Time(by.Milliseconds())
	if !o.asleep {
		o.awake += market.Time(by.Milliseconds())
	}
	o.notices()
}

func (o *observatory) notices() {
	before := len(o.journal)
	if _, err := o.do(market.Notice{}, o.now); err != nil {
		o.t.Fatal(err)
	}
	if len(o.journal) > before+1 {
		o.t.Fatalf("%d events", len(o.journal)-before)
	}
	if len(o.journal) > before {
		o.told = o.awake
	}
	o.check()
	if o.asleep {
		return
	}
	for _, c := range clusters {
		alive := o.heard[c] != 0 && o.now < o.heard[c]+market.Time(market.Lease.Milliseconds())
		_, known := o.first[c]
		n := len(o.lost[c])
		away := n > 0 && o.lost[c][n-1].until < 0
		switch {
		case alive && !known:
			o.first[c] = o.awake
		case alive && away:
			o.lost[c][n-1].until = o.awake
		case !alive && known && !away:
			o.lost[c] = append(o.lost[c], interval{o.awake, -1})
		}
	}
}

// crashes is a start from what the journal holds.
func (o *observatory) crashes() {
	if o.number%2 == 0 {
		o.fold()
	}
	o.restart(len(o.journal))
	o.awake, o.asleep = o.told, true
	clear(o.heard)
}

// uptime is what should be said of a cluster.
func (o *observatory) uptime(cluster string, at market.Time) int64 {
	const day = 24 * 3600 * 1000
	first, known := o.first[cluster]
	if !known || at-first < day {
		return market.UnknownUptime
	}
	from := max(first, (at/day-29)*day)
	away := market.Time(0)
	for _, i := range o.lost[cluster] {
		if i.until < 0 {
			i.until = at
		}
		away += max(0, i.until-max(i.from, from))
	}
	return int64((at - from - away) * 1_000_000 / (at - from))
}

func TestUptimeIsWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newObservatory(t, clusters...)
		o.wakes()
		for range rapid.IntRange(10, 120).Draw(t, "acts") {
			switch c := rapid.SampledFrom(clusters).Draw(t, "cluster"); rapid.IntRange(0, 12).Draw(t, "act") {
			default:
				o.advertises(c)
				o.notices()
				if got, want := o.listing(c).Uptime, o.uptime(c, o.awake); got != want {
					t.Fatalf("%s has uptime %d, want %d", c, got, want)
				}
			case 5, 6, 7, 8:
				o.passes(rapid.SampledFrom([]time.Duration{time.Second, market.Lease,
					time.Hour, 20 * time.Hour, 3 * 24 * time.Hour, 40 * 24 * time.Hour}).Draw(t, "time"))
			case 9:
				o.crashes()
			case 10:
				o.sleep(o.now)
				o.asleep = true
				o.passes(rapid.SampledFrom([]time.Duration{time.Second, 1000 * time.Hour}).Draw(t, "asleep"))
			case 11:
				o.wakes()
				o.notices()
			case 12:
				// gone for ever, and back as somebody new
				for _, step := range []api.MemberState{api.MemberRemoved, api.MemberActive} {
					o.apply(market.Event{Time: o.now, Member: &market.Member{Cluster: c, State: step, Key: "k"}})
				}
				delete(o.first, c)
				delete(o.lost, c)
				delete(o.heard, c) // what it advertised went with its membership
				o.notices()
			}
		}
	})
}

// Who is lost is told at once; how much of the time grows while it is away, in steps that cost the
// journal little.
func TestUptimeOfWhoIsAway(t *testing.T) {
	o := newObservatory(t, "rome")
	o.wakes()
	live := func(days float64) {
		for end := o.now + market.Time(days*24*3600*1000); o.now < end; {
			o.advertises("rome")
			o.passes(time.Minute)
		}
	}
	live(0.99)
	if got := o.listing("rome").Uptime; got != market.UnknownUptime {
		t.Errorf("before a day it is %d", got)
	}
	live(9.01)
	if got := o.listing("rome").Uptime; got != 1_000_000 {
		t.Errorf("of ten days it is %d", got)
	}
	before := len(o.journal)
	for range 10 * 24 * 60 {
		o.passes(time.Minute)
	}
	if got := o.listing("rome").Uptime; got < 499_000 || got > 501_000 {
		t.Errorf("away for as long as it was there: %d", got)
	}
	if events := len(o.journal) - before; events > 10*24*4+1 {
		t.Errorf("%d events in ten days", events)
	}
}

// However many are lost at once, it is one event; and the record of a member that comes and goes
// for ever is bounded.
func TestLeasesAreCheapToRemember(t *testing.T) {
	var members []string
	for i := range 1000 {
		members = append(members, fmt.Sprintf("c%03d", i))
	}
	o := newObservatory(t, members...)
	o.wakes()
	for _, c := range members {
		o.advertises(c)
	}
	o.notices()
	o.passes(market.Lease)
	last := decode(t, o.journal[len(o.journal)-1]).Leases
	if last == nil || len(last.Lost) != len(members) || !slices.Equal(last.Lost, members) {
		t.Errorf("lost are %s", dump(last))
	}
}

// The record of a member that comes and goes for ever is bounded.
func TestPresenceIsBounded(t *testing.T) {
	o := newObservatory(t, "rome")
	o.wakes()
	size := func(days int) int {
		for range days * 12 {
			o.advertises("rome")
			o.notices()
			o.passes(market.Lease)
			o.passes(2*time.Hour - market.Lease)
		}
		return len(o.bytes(o.state))
	}
	first := size(60)
	if more := size(60) - first; more > 100 {
		t.Errorf("after sixty days more it has %d bytes more", more)
	}
	if got, want := o.listing("rome").Uptime, 1_000_000*market.Lease/(2*time.Hour); got > int64(want) ||
		got < int64(want)*9/10 {
		t.Errorf("there for a lease every two hours: %d, want %d", got, want)
	}
}

// An agent keeps no books on whom it hears.
func TestAgentsNoticeNothing(t *testing.T) {
	d := newGate(t)
	d.wake(d.now)
	if out := d.must(market.Notice{}); len(out.Events) > 0 {
		t.Errorf("noticed %s", dump(out.Events))
	}
}
