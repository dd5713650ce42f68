package exchange_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// lives lets time pass in which rome, if it is there, renews its lease, and the exchange looks at the time.
func (x *running) lives(clock *clock, number *int64, during time.Duration, there bool) {
	x.t.Helper()
	const step = 29 * time.Second // a longer one would be a pause
	for range during / step {
		clock.pass(step, step)
		if there {
			*number++
			x.advertise("rome", *number, "8")
		} else {
			x.look()
		}
	}
}

// What a broker did not see is for or against nobody: neither while it was down, nor while it stood
// still or the clock jumped.
func TestUptimeIsOfWhatTheBrokerSaw(t *testing.T) {
	for name, upset := range map[string]func(*clock, *memorytest.Journal, *running) *running{
		"nothing": func(_ *clock, _ *memorytest.Journal, x *running) *running { return x },
		"it was down": func(c *clock, j *memorytest.Journal, x *running) *running {
			if err := x.stop(); err != nil {
				x.t.Fatal(err)
			}
			c.pass(10*day, 10*day)
			return start(x.t, j, exchange.Options{Clock: c})
		},
		"it was down, again and again": func(c *clock, j *memorytest.Journal, x *running) *running {
			for range 100 {
				if err := x.stop(); err != nil {
					x.t.Fatal(err)
				}
				c.pass(time.Hour, time.Hour)
				x = start(x.t, j, exchange.Options{Clock: c})
				c.pass(time.Minute, time.Minute)
				x.look()
			}
			return x
		},
		"it stood still": func(c *clock, j *memorytest.Journal,
			x *running) *running {
			c.pass(10*day, 10*day)
			x.look()
			return x
		},
		"the machine slept": func(c *clock, j *memorytest.Journal,
			x *running) *running {
			c.pass(0, 10*day)
			x.look()
			return x
		},
		"the wall jumped ahead": func(c *clock, j *memorytest.Journal, x *running) *running {
			c.pass(time.Second, 10*day)
			x.look()
			return x
		},
		"the wall jumped far back": func(c *clock, j *memorytest.Journal, x *running) *running {
			c.pass(time.Second, -10*day)
			x.look()
			return x
		},
	} {
		for there, want := range map[bool]int64{true: 1_000_000, false: 500_000} {
			t.Run(fmt.Sprintf("%s, back %v", name, there), func(t *testing.T) {
				clock, number := newClock(), int64(1)
				j := newMemory()
				x := founded(t, j, exchange.Options{Clock: clock})
				x.lives(clock, &number, 30*time.Hour, true)
				x = upset(clock, j, x)
				x.lives(clock, &number, 30*time.Hour, there)
				if got := x.View().Listing("rome").Uptime; got < want-5_000 || got > want+5_000 || there && got != want {
					t.Errorf("uptime is %d, want %d", got, want)
				}
			})
		}
	}
}

// However many are lost, or come back, at once: what is noticed in a second is one commit.
func TestLostAtOnceIsOneCommit(t *testing.T) {
	clock := newClock()
	x := start(t, newMemory(), exchange.Options{Clock: clock})
	var all []string
	for i := range 500 {
		all = append(all, fmt.Sprintf("c%d", i))
	}
	x.join(all...)
	for number := range int64(2) {
		before := x.Stats().Batches
		for _, c := range all {
			x.advertise(c, number+1, "8")
		}
		clock.pass(time.Second, time.Second)
		x.look()
		clock.pass(market.Lease, market.Lease)
		x.look()
		if commits := x.Stats().Batches - before; commits > 3 { // the first may have been seen alone
			t.Errorf("%d commits", commits)
		}
	}
}
