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
}

func (l *link) heard(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = err; err == nil {
		l.last = time.Now()
	}
}

// state says whether the broker is connected, and when it was last heard.
func (l *link) state() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && !l.last.IsZero(), l.last
}
