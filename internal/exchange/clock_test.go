package exchange_test

import (
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

func newMemory() *memorytest.Journal { return memorytest.New() }

var noon = market.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// clock shows what it is told to.
type clock struct {
	mu     sync.Mutex
	wall   time.Time
	passed time.Duration
}

func newClock() *clock { return &clock{wall: noon.Go()} }

func (c *clock) Wall() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.wall }

func (c *clock) Passed() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.passed }

// pass lets time pass. The wall shows more or less of it.
func (c *clock) pass(passed, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed, c.wall = c.passed+passed, c.wall.Add(wall)
}

const day = 24 * time.Hour

// What a clock may do, and what an exchange makes of it. Before it: a hold of paris on rome, which
// advertised.
func TestClock(t *testing.T) {
	for name, c := range map[string]struct {
		passed, wall time.Duration
		now          time.Duration // since noon
		jumps        int64
		held, fresh  bool
	}{
		"ordinary time":         {10 * time.Second, 10 * time.Second, 10 * time.Second, 0, true, true},
		"the hold's time":       {29 * time.Second, 30 * time.Second, 30 * time.Second, 0, true, true},
		"a slow wall":           {20 * time.Second, 19 * time.Second, 19 * time.Second, 0, true, true},
		"a small step back":     {time.Second, -time.Second / 2, 0, 0, true, true},
		"the wall, a day ahead": {time.Second, day, time.Second, 1, true, true},
		"the wall, a day back":  {time.Second, -day, time.Second, 1, true, true},
		"two hours' pause":      {2 * time.Hour, 2 * time.Hour, 2 * time.Hour, 0, true, true},
		"a pause and a jump":    {2 * time.Hour, 2*time.Hour + day, 2 * time.Hour, 1, true, true},
		"a suspended machine":   {0, 2 * time.Hour, 0, 1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			x := founded(t, newMemory(), exchange.Options{Clock: clock})
			x.must(hold("r", 5))
			clock.pass(c.passed, c.wall)
			x.look()
			if got := x.Now().Go().Sub(noon.Go()); got != c.now {
				t.Errorf("it is %v after noon, want %v", got, c.now)
			}
			if got := x.Stats().Jumps; got != c.jumps {
				t.Errorf("%d jumps, want %d", got, c.jumps)
			}
			if held := x.reservation("r").State == api.Held; held != c.held {
				t.Errorf("held: %v", held)
			}
			if fresh := x.View().Listing("rome").Fresh(x.Now()); fresh != c.fresh {
				t.Errorf("fresh: %v", fresh)
			}
		})
	}
}

// A pause says nothing about anyone: all leases restart, and expiry waits for one lease, but not for ever.
func TestExpiryPausesForOneLease(t *testing.T) {
	for name, upset := range map[string]func(*clock){
		"the process stood still":  func(c *clock) { c.pass(2*time.Hour, 2*time.Hour) },
		"the wall jumped ahead":    func(c *clock) { c.pass(20*time.Second, day); c.pass(0, 0) },
		"the wall jumped far back": func(c *clock) { c.pass(20*time.Second, -day) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			x := founded(t, newMemory(), exchange.Options{Clock: clock})
			x.must(hold("r", 5))
			upset(clock)
			x.look()
			upsetAt := x.Now()
			step := func() { clock.pass(10*time.Second, 10*time.Second); x.look() }
			for x.Now() < upsetAt+market.Time(market.Lease.Milliseconds()) {
				if r := x.reservation("r"); r.State != api.Held || !x.View().Listing("rome").Fresh(x.Now()) {
					t.Fatalf("after %d ms it is %s, rome fresh until %d", x.Now()-upsetAt,
						r.State, x.View().Listing("rome").FreshUntil-upsetAt)
				}
				step()
			}
			if r := x.reservation("r"); r.State != api.Expired || r.Changed != x.Now() ||
				x.View().Listing("rome").Fresh(x.Now()) {
				t.Errorf("a lease later it is %s", r.State)
			}
			step()
			if got := x.Stats().Jumps; got > 1 {
				t.Errorf("%d jumps", got)
			}
		})
	}
}

// The journal's times follow the time that passed, not the wall.
func TestNoJumpedTimeIsJournalled(t *testing.T) {
	clock, j := newClock(), newMemory()
	x := founded(t, j, exchange.Options{Clock: clock})
	for i, jump := range []time.Duration{day, -2 * day, 3 * time.Second,
		40 * day, -1500 * time.Millisecond, 1500 * time.Millisecond} {
		clock.pass(time.Second, time.Second+jump)
		r := x.must(hold(string(rune('a'+i)), 1)).Reservation
		if passed := r.Created - noon; passed < market.Time(i)*1000 || passed > market.Time(i+1)*1000 {
			t.Errorf("jump by %v: journalled at %d ms", jump, passed)
		}
	}
}

// A wall that drifts slowly is followed, in both directions, and never back.
func TestDriftIsFollowed(t *testing.T) {
	clock := newClock()
	x := founded(t, newMemory(), exchange.Options{Clock: clock})
	last := x.Now()
	for i := range 1000 {
		drift := time.Duration(i%7-3) * 100 * time.Millisecond
		clock.pass(250*time.Millisecond, 250*time.Millisecond+drift)
		x.look()
		if x.Now() < last {
			t.Fatalf("time went back by %d", last-x.Now())
		}
		last = x.Now()
	}
	if ahead := last.Go().Sub(clock.Wall()); ahead < 0 || ahead > time.Second || x.Stats().Jumps > 0 {
		t.Errorf("%v ahead of the wall after %d jumps", ahead, x.Stats().Jumps)
	}
}

// A start on a wall that shows less than the journal knows goes on from the journal's time; expiry waits.
func TestStartBeforeTheNewestTime(t *testing.T) {
	for name, wall := range map[string]time.Duration{"a day back": -day,
		"a second back": -time.Second, "the same": 0, "a day ahead": day} {
		t.Run(name, func(t *testing.T) {
			j := newMemory()
			x := founded(t, j, exchange.Options{Clock: newClock()})
			x.must(hold("r", 5))
			if err := x.stop(); err != nil {
				t.Fatal(err)
			}
			clock := newClock()
			clock.pass(0, wall)
			x = start(t, j, exchange.Options{Clock: clock})
			began := noon + market.Time(max(wall, 0).Milliseconds())
			if x.Now() != began {
				t.Errorf("started at %v, want %v", x.Now().Go(), began.Go())
			}
			for range 10 {
				clock.pass((market.Lease-time.Millisecond)/10, (market.Lease-time.Millisecond)/10)
				x.look()
			}
			if r := x.reservation("r"); r.State != api.Held {
				t.Errorf("it is %s too early", r.State)
			}
			clock.pass(time.Millisecond, time.Millisecond)
			x.look()
			if r := x.reservation("r"); r.State != api.Expired || r.Changed != began+market.Time(market.Lease.Milliseconds()) {
				t.Errorf("a lease later it is %s, changed at %v", r.State, r.Changed.Go())
			}
		})
	}
}

// An agent's gate has nobody to wait for: its promises end in time.
func TestAgentsDoNotPause(t *testing.T) {
	clock, j := newClock(), newMemory()
	x := start(t, j, exchange.Options{Self: "rome", Clock: clock})
	x.advertise("rome", 1, "8")
	x.must(market.Admit{Assignment: api.Assignment{Reservation: "r",
		Generation: 1, Consumer: "paris", Provider: "rome", Pool: api.GeneralPool, Until: (noon + 1_000_000).Meta()},
		Size: amounts.List{{Resource: "cpu", Value: 1000}}, Document: "doc", BindsUntil: noon + 90_000})
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	clock.pass(90*time.Second, 90*time.Second)
	x = start(t, j, exchange.Options{Self: "rome", Clock: clock})
	x.look()
	if r := x.reservation("r"); r.State != api.Released || r.Reason != api.ReasonAcceptanceDropped {
		t.Errorf("it is %s (%s)", r.State, r.Reason)
	}
}
