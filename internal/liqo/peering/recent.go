package peering

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// recent keeps, per peer, objects of an opening for two seconds. Each message and each event
// continues an opening while a virtual node waits for it, so reading again would only delay it.
// Afterwards, and after a crash, the objects are read again. Several goroutines may use it.
type recent[T any] struct {
	mu    sync.Mutex
	known map[string]kept[T]
}

type kept[T any] struct {
	value T
	until time.Time
}

const recently = 2 * time.Second

// now is the time of a clock, that of the machine where there is none.
func now(c clock.PassiveClock) time.Time {
	return cmp.Or[clock.PassiveClock](c, clock.RealClock{}).Now()
}

func (r *recent[T]) keep(peer string, value T, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]kept[T]{}
	}
	r.known[peer] = kept[T]{value, now.Add(recently)}
}

func (r *recent[T]) of(peer string, now time.Time) (value T, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if entry := r.known[peer]; now.Before(entry.until) {
		return entry.value, true
	}
	delete(r.known, peer)
	return value, false
}

func (r *recent[T]) forget(peer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, peer)
}
