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
	ahead  time.Duration // of the wall, by its jumps
	wall   time.Time     // at the last look
	passed time.Duration
}

// newSteady starts at the wall's time, but not before the newest time in the journal.
func newSteady(c Clock, newest time.Time) *steady {
	s := &steady{clock: c, wall: c.Wall(), passed: c.Passed()}
	s.now = s.wall
	s.notBefore(newest)
	return s
}

// notBefore makes t the time, and the wall's distance from it a jump, if it is later than now.
func (s *steady) notBefore(t time.Time) {
	if t.After(s.now) {
		s.now, s.ahead = t, s.wall.Sub(t)
	}
}

// look advances the clock. jumped is how far the wall jumped since the last look, paused how
// long nobody looked; both 0 in ordinary times.
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
