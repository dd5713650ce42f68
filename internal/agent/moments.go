package agent

import "time"

// moments tell what lasts from what passes. On the way to a virtual node Liqo mostly answers within milliseconds, and each picture that
// is drawn meanwhile holds the next step up: what passes is not drawn.
type moments[T comparable] map[string]moment[T]

type moment[T comparable] struct {
	is    T
	since time.Time
}

// last is how long something has been what it is now.
func (m moments[T]) last(name string, now T) time.Duration {
	if was, known := m[name]; !known || was.is != now {
		m[name] = moment[T]{now, time.Now()}
	}
	return time.Since(m[name].since)
}

// passing is how long something lasts that people need not see.
const passing = time.Second

// pass says that it has not been that for long. Whoever asks looks again soon.
func (m moments[T]) pass(name string, now T) bool { return m.last(name, now) < passing }
