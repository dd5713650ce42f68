package queue

import "github.com/bourse-dev/bourse/internal/market"

// Grown is when a cluster last had more capacity than before, in milliseconds since 1970. 0: it is
// not known yet.
func (q *Queue) Grown() int64 {
	if q == nil {
		return 0
	}
	return q.last.Load()
}

// OnGrown calls do once, when a cluster next has more capacity than before. It must not block. There is one
// for each cluster that asks: a later one replaces it.
func (q *Queue) OnGrown(cluster string, do func()) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.onGrown == nil {
		q.onGrown = map[string]func(){}
	}
	q.onGrown[cluster] = do
}

// callGrown notes that a cluster grew, and calls what waits for that.
func (q *Queue) callGrown(now market.Time) {
	q.last.Store(int64(now))
	q.mu.Lock()
	all := q.onGrown
	q.onGrown = nil
	q.mu.Unlock()
	for _, do := range all {
		do()
	}
}
