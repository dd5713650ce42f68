package exchange

import "time"

// Clock gives an exchange the time: Wall may jump, Passed (the time since some moment) may not.
type Clock interface {
	Wall() time.Time
	Passed() time.Duration
}

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{time.Now()} }

type systemClock struct{ start time.Time }

func (c systemClock) Wall() time.Time       { return time.Now().Round(0) }
func (c systemClock) Passed() time.Duration { return time.Since(c.start) }

const (
	// jumpLimit is how much wall time and passed time may differ between two looks. More is a jump.
	jumpLimit = 2 * time.Second
	// pauseLimit is the longest time between two looks of a process that runs.
	pauseLimit = 30 * time.Second
)

// steady is a clock that follows small corrections of the wall clock. It ignores jumps and never goes
// back.
type steady struct {
	clock  Clock
	now    time.Time
	ahead  time.Duration // how far the wall is ahead, by its jumps
	wall   time.Time     // at the last look
	passed time.Duration
}

// newSteady returns a clock that starts at the wall's time, but not before newest.
func newSteady(c Clock, newest time.Time) *steady {
	s := &steady{clock: c, wall: c.Wall(), passed: c.Passed()}
	s.now = s.wall
	s.notBefore(newest)
	return s
}

// notBefore sets the clock to t if t is later. The difference to the wall then counts as a jump.
func (s *steady) notBefore(t time.Time) {
	if t.After(s.now) {
		s.now, s.ahead = t, s.wall.Sub(t)
	}
}

// look advances the clock. jumped is how far the wall jumped since the last look, paused how long the
// process stood still. Both are usually 0.
func (s *steady) look() (now time.Time, jumped, paused time.Duration) {
	wall, passed := s.clock.Wall(), s.clock.Passed()
	step := passed - s.passed
	if drift := wall.Sub(s.wall) - step; drift.Abs() > jumpLimit {
		jumped = drift
		s.ahead += drift
	}
	if step > pauseLimit {
		paused = step
	}
	s.wall, s.passed = wall, passed
	if t := wall.Add(-s.ahead); t.After(s.now) {
		s.now = t
	}
	return s.now, jumped, paused
}
