package reservations

import (
	"sync"

	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/turns"
)

// slots bounds how many reservations are settled at one session at a time, so that a broker that
// does not answer leaves workers for the others.
type slots struct {
	perSession func() int
	turnOf     func(id string) turns.Turn
	again      func(id string) // settles a reservation that had to wait

	mu      sync.Mutex
	taken   map[*brokersession.Session]int
	waiting map[*brokersession.Session]*turns.Queue[string] // IDs
}

func newSlots(perSession func() int, turnOf func(id string) turns.Turn, again func(id string)) *slots {
	return &slots{
		perSession: perSession, turnOf: turnOf, again: again,
		taken: map[*brokersession.Session]int{}, waiting: map[*brokersession.Session]*turns.Queue[string]{},
	}
}

// take takes a slot of a session for a reservation. Without a free slot it returns false, and the
// reservation is settled again when one is free.
func (l *slots) take(s *brokersession.Session, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[s] < l.perSession() {
		l.taken[s]++
		l.forget(s, id)
		return true
	}
	if l.waiting[s] == nil {
		l.waiting[s] = turns.New(l.turnOf)
	}
	l.waiting[s].Push(id)
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
	l.forget(s, id)
	if l.taken[s] < l.perSession() {
		l.wake(s)
	}
}

// wake settles the next reservation again that waits for a session. The lock is held.
func (l *slots) wake(s *brokersession.Session) {
	if waiting := l.waiting[s]; waiting != nil {
		id := waiting.Pop()
		l.forget(s, id)
		l.again(id)
	}
}

// forget says that a reservation does not wait for a session. The lock is held.
func (l *slots) forget(s *brokersession.Session, id string) {
	waiting := l.waiting[s]
	if waiting == nil {
		return
	}
	if waiting.Remove(id); waiting.Len() == 0 {
		delete(l.waiting, s)
	}
}
