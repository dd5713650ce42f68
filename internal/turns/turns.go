// Package turns orders what waits for a worker, so that one party with much to do delays no other.
//
// A [Queue] is the order of a workqueue. Ends and all else alternate, ends first, so that neither can keep
// the other waiting. Among each of the two, parties take turns.
package turns

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Turn says in which order an item is served.
type Turn struct {
	// Party is the one that it is for, such as a namespace or a cluster.
	Party string
	// Ends says that it ends something.
	Ends bool
}

// Queue holds items that wait. Its zero value is not ready for use: see [New]. Several goroutines may use it.
type Queue[T comparable] struct {
	find func(T) Turn

	mu             sync.Mutex
	turns          map[T]Turn // of all items
	ending, others rota[T]
	endWasLast     bool
}

// New returns an empty queue. find returns the turn of an item. It is called whenever an item comes, also one that
// waits already, and must not wait for the queue.
func New[T comparable](find func(T) Turn) *Queue[T] {
	return &Queue[T]{find: find, turns: map[T]Turn{}}
}

// Workqueue returns a workqueue with this order. It must be the only one. A nil clock is the machine's.
func (q *Queue[T]) Workqueue(
	name string, c clock.WithTicker, limiter workqueue.TypedRateLimiter[T],
) workqueue.TypedRateLimitingInterface[T] {
	waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Clock: c, Queue: q})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[T]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[T]{Name: name, Clock: c, Queue: waiting}),
		})
}

// NewQueue is [Queue.Workqueue] as a controller wants it (controller.Options).
func (q *Queue[T]) NewQueue(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return q.Workqueue(name, nil, limiter)
}

// Push implements workqueue.Queue. An item that waits already keeps its place, or moves to the ends.
func (q *Queue[T]) Push(item T) {
	turn := q.find(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	if was, waits := q.turns[item]; waits {
		if was.Ends || !turn.Ends {
			return
		}
		q.others.remove(was.Party, item)
	}
	q.turns[item] = turn
	if turn.Ends {
		q.ending.add(turn.Party, item)
	} else {
		q.others.add(turn.Party, item)
	}
}

// Touch implements workqueue.Queue: an item that comes to an end while it waits now waits as an end.
func (q *Queue[T]) Touch(item T) { q.Push(item) }

// Len implements workqueue.Queue.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.turns)
}

// Pop implements workqueue.Queue. The queue must not be empty.
func (q *Queue[T]) Pop() (item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.endWasLast = q.endIsNext(); q.endWasLast {
		item = q.ending.next()
	} else {
		item = q.others.next()
	}
	delete(q.turns, item)
	return item
}

// Remove removes an item that no longer waits, if it did.
func (q *Queue[T]) Remove(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, waits := q.turns[item]
	switch {
	case !waits:
	case turn.Ends:
		q.ending.remove(turn.Party, item)
	default:
		q.others.remove(turn.Party, item)
	}
	delete(q.turns, item)
}

// Before returns how many items are served before one that ends nothing, if no other comes. waits reports
// whether that one waits.
func (q *Queue[T]) Before(item T) (n int, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, waits := q.turns[item]
	if !waits || turn.Ends {
		return 0, false
	}
	n = q.others.before(turn.Party, item)
	ends := n // one before each of the others that come first
	if q.endIsNext() {
		ends++
	}
	return n + min(ends, q.ending.size), true
}

// endIsNext reports whether the next turn is that of an end.
func (q *Queue[T]) endIsNext() bool { return q.ending.size > 0 && !(q.endWasLast && q.others.size > 0) }

// rota has the waiting items of each party. Parties are in the order of their next turns.
type rota[T comparable] struct {
	parties []string
	waiting map[string][]T
	size    int
}

func (r *rota[T]) add(party string, item T) {
	if r.waiting == nil {
		r.waiting = map[string][]T{}
	}
	if len(r.waiting[party]) == 0 {
		r.parties = append(r.parties, party)
	}
	r.waiting[party] = append(r.waiting[party], item)
	r.size++
}

// next removes the oldest item of the party whose turn it is. The rota must not be empty.
func (r *rota[T]) next() T {
	party := r.parties[0]
	r.parties = r.parties[1:]
	item := r.waiting[party][0]
	r.waiting[party] = r.waiting[party][1:]
	r.size--
	if len(r.waiting[party]) > 0 {
		r.parties = append(r.parties, party)
	} else {
		delete(r.waiting, party)
	}
	return item
}

// remove removes an item that waits.
func (r *rota[T]) remove(party string, item T) {
	i := slices.Index(r.waiting[party], item)
	r.waiting[party] = slices.Delete(r.waiting[party], i, i+1)
	r.size--
	if len(r.waiting[party]) == 0 {
		delete(r.waiting, party)
		r.parties = slices.DeleteFunc(r.parties, func(other string) bool { return other == party })
	}
}

// before returns how many items are served before one that waits.
func (r *rota[T]) before(party string, item T) (n int) {
	round, own := slices.Index(r.waiting[party], item), slices.Index(r.parties, party)
	for i, other := range r.parties {
		served := round
		if i < own {
			served++
		}
		n += min(len(r.waiting[other]), served)
	}
	return n
}
