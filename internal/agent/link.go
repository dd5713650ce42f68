package agent

import (
	"sync"
	"time"
)

// link is what is known of the connection to the broker.
type link struct {
	mu   sync.Mutex
	err  error
	last time.Time
	// turned is when it was last lost, or found.
	turned time.Time
}

// heard notes how the last call went, and says whether the broker is back.
func (l *link) heard(err error) (back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	back = err == nil && l.err != nil
	if back || (err == nil) != (l.err == nil) || l.turned.IsZero() {
		l.turned = time.Now()
	}
	if l.err = err; err == nil {
		l.last = time.Now()
	}
	return back
}

// away says that the last call failed, and that nothing was heard for so long.
func (l *link) away(long time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil && time.Since(l.last) >= long
}

// state says whether the broker is connected, and when it was last heard.
func (l *link) state() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && !l.last.IsZero(), l.last
}

// since is when it was last lost, or found; zero before the first call.
func (l *link) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turned
}
