package turns

import (
	"slices"
	"sync"
)

// SlotsOptions say how many slots there are, and who waits for them.
type SlotsOptions[T comparable] struct {
	// Workers is how many items are served at the same time at all places together.
	Workers int
	// Most is how many slots one place has at most.
	Most int
	// Places returns how many places there are now.
	Places func() int
	// Find returns the turn of an item.
	Find func(T) Turn
	// Again makes a worker serve an item that waited and has a slot now. It must not block.
	Again func(T)
}

// Slots bound how many items are served at one place at a time, so that places that do not answer leave workers for
// the others. Each place has an equal share of the workers. Several goroutines may use them.
type Slots[S, T comparable] struct {
	options SlotsOptions[T]

	mu     sync.Mutex
	places map[S]*place[T] // those with items
}

// place has the items that have a slot there, and those that wait for one.
type place[T comparable] struct {
	served  map[T]bool
	waiting *Queue[T]
}

// NewSlots returns slots that are all free.
func NewSlots[S, T comparable](o SlotsOptions[T]) *Slots[S, T] {
	return &Slots[S, T]{options: o, places: map[S]*place[T]{}}
}

// Take reports whether an item has a slot of a place now. Without a free slot the item waits: it gets the slot in its
// turn, and is served again. It must call Leave or Keep later.
func (l *Slots[S, T]) Take(where S, item T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[where]
	if p == nil {
		p = &place[T]{served: map[T]bool{}, waiting: New(l.options.Find)}
		l.places[where] = p
	}
	if !p.served[item] && len(p.served) >= l.share() {
		p.waiting.Push(item)
		return false
	}
	p.waiting.Remove(item)
	p.served[item] = true
	return true
}

// Leave says that an item neither has nor awaits a slot of a place from now on. The next one that waits gets its slot.
func (l *Slots[S, T]) Leave(where S, item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(where, item)
}

// Keep makes an item leave all other places.
func (l *Slots[S, T]) Keep(item T, where ...S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.places {
		if !slices.Contains(where, other) {
			l.leave(other, item)
		}
	}
}

// Before returns for how many others an item waits, and whether it waits at any place.
func (l *Slots[S, T]) Before(item T) (n int, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.places {
		if n, waits = p.waiting.Before(item); waits {
			return n, true
		}
	}
	return 0, false
}

// share returns how many slots a place has: all others that do not answer leave one for it.
func (l *Slots[S, T]) share() int {
	return min(l.options.Most, max(1, l.options.Workers/max(1, l.options.Places())))
}

// leave passes the slot of an item on. The lock is held.
func (l *Slots[S, T]) leave(where S, item T) {
	p := l.places[where]
	if p == nil {
		return
	}
	delete(p.served, item)
	p.waiting.Remove(item)
	for p.waiting.Len() > 0 && len(p.served) < l.share() {
		next := p.waiting.Pop()
		p.served[next] = true
		l.options.Again(next)
	}
	if len(p.served) == 0 && p.waiting.Len() == 0 {
		delete(l.places, where)
	}
}
