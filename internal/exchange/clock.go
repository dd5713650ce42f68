package exchange

import "time"

// Clock is where an exchange takes time from: what the wall shows, which may
// jump, and what has passed since some moment, which may not.
type Clock interface {
	Wall() time.Time
	Passed() time.Duration
}

// SystemClock is the machine's.
func SystemClock() Clock { return systemClock{time.Now()} }

type systemClock struct{ start time.Time }

func (c systemClock) Wall() time.Time       { return time.Now().Round(0) }
func (c systemClock) Passed() time.Duration { return time.Since(c.start) }

const (
	// A difference between wall and passed time above jumpLimit, between two looks, is a jump.
	jumpLimit = 2 * time.Second
	// Not having looked for pauseLimit means that the whole process stood still.
	pauseLimit = 30 * time.Second
)

// steady is a clock that follows the wall's small corrections but never its jumps,
// and never goes back.
type steady struct {
	clock  Clock
	now    time.Time
	wall   time.Time
	passed time.Duration
}

// newSteady starts at the wall's time, but not before the newest time in the journal.
func newSteady(c Clock, newest time.Time) *steady {
	s := &steady{clock: c, wall: c.Wall(), passed: c.Passed()}
	s.now = s.wall
	if newest.After(s.now) {
		s.now = newest
	}
	return s
}

// look advances the clock. jumped is how far the wall jumped since the last look, paused how
// long nobody looked; both 0 in ordinary times.
func (s *steady) look() (now time.Time, jumped, paused time.Duration) {
	wall, passed := s.clock.Wall(), s.clock.Passed()
	step := passed - s.passed
	drift := wall.Sub(s.wall) - step
	s.wall, s.passed = wall, passed
	if step > pauseLimit {
		paused = step
	}
	if drift.Abs() > jumpLimit {
		jumped, drift = drift, 0
	}
	s.now = s.now.Add(max(0, step+drift))
	return s.now, jumped, paused
}
