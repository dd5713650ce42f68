// Package debounce tells what lasts from what passes. On the way to a virtual node Liqo mostly answers
// within milliseconds. Each status that is written meanwhile holds up the next step, and no user needs to
// see it. So a controller asks a [Debouncer] how long something has been in its state, and does not show
// a state that passes.
package debounce

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Passing is how long a state lasts that users need not see.
const Passing = time.Second

// forgetAfter is how long a name is remembered that nobody asks about.
const forgetAfter = time.Hour

// Debouncer remembers since when each of several things has been in its state. Several goroutines may use
// it.
type Debouncer[State comparable] struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[string]since[State]
}

type since[State comparable] struct {
	state        State
	began, asked time.Time
}

// New returns a Debouncer that knows nothing. A nil clock is the machine's.
func New[State comparable](c clock.PassiveClock) *Debouncer[State] {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Debouncer[State]{clock: c, known: map[string]since[State]{}}
}

// Age returns how long a thing has been in its state. It is 0 when the state is new.
func (d *Debouncer[State]) Age(name string, state State) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	last, known := d.known[name]
	if !known {
		d.forgetOld(now)
	}
	if !known || last.state != state {
		last = since[State]{state: state, began: now}
	}
	last.asked = now
	d.known[name] = last
	return now.Sub(last.began)
}

// Passes reports whether a thing has been in its state for less than Passing. The caller asks again soon.
func (d *Debouncer[State]) Passes(name string, state State) bool { return d.Age(name, state) < Passing }

// Forget drops a thing that no longer exists, or that is in no state that could pass.
func (d *Debouncer[State]) Forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
}

// forgetOld bounds what is known: it drops the names that nobody asks about. The lock is held.
func (d *Debouncer[State]) forgetOld(now time.Time) {
	for name, state := range d.known {
		if now.Sub(state.asked) > forgetAfter {
			delete(d.known, name)
		}
	}
}
