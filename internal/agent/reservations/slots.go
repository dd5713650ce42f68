package reservations

import (
	"sync"

	"github.com/bourse-dev/bourse/internal/agent/brokersession"
)

// slots bounds how many reservations are settled at one session at a time, so that a broker that
// does not answer leaves workers for the others.
type slots struct {
	perSession int
	again      func(id string) // settles a reservation that had to wait

	mu      sync.Mutex
	taken   map[*brokersession.Session]int
	waiting map[*brokersession.Session]map[string]bool // IDs
}

func newSlots(perSession int, again func(id string)) *slots {
	return &slots{
		perSession: perSession, again: again,
		taken: map[*brokersession.Session]int{}, waiting: map[*brokersession.Session]map[string]bool{},
	}
}

// take takes a slot of a session for a reservation. Without a free slot it returns false, and the
// reservation is settled again when one is free.
func (l *slots) take(s *brokersession.Session, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[s] < l.perSession {
		l.taken[s]++
		delete(l.waiting[s], id)
		return true
	}
	if l.waiting[s] == nil {
		l.waiting[s] = map[string]bool{}
	}
	l.waiting[s][id] = true
	return false
}

// release frees a slot of a session.
func (l *slots) release(s *brokersession.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[s]--; l.taken[s] == 0 {
		delete(l.taken, s)
	}
	l.wake(s)
}

// skip says that a reservation needs no slot of a session any more. Another one that waits gets its turn.
func (l *slots) skip(s *brokersession.Session, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting[s], id)
	if l.taken[s] < l.perSession {
		l.wake(s)
	}
}

// wake settles one reservation again that waits for a session. The lock is held.
func (l *slots) wake(s *brokersession.Session) {
	for id := range l.waiting[s] {
		delete(l.waiting[s], id)
		l.again(id)
		break
	}
	if len(l.waiting[s]) == 0 {
		delete(l.waiting, s)
	}
}
