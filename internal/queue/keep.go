package queue

import "github.com/bourse-dev/bourse/internal/market"

// kept is the cluster that is kept for the first request in the queue.
type kept struct {
	cluster string
	slot    int
	first   *market.Reservation
}

// Kept returns the cluster on which a new request of that priority must not be placed, because it is
// kept for a waiting one; empty: none.
func (q *Queue) Kept(priority int32) string {
	if q == nil {
		return ""
	}
	if k := q.kept.Load(); k != nil && priority <= k.first.Priority() {
		return k.cluster
	}
	return ""
}

// keep chooses the cluster that is kept for the first request in the queue that some cluster could
// serve. It keeps the same cluster while that could serve it, so that the cluster empties.
func (q *Queue) keep() {
	now, k := q.Market.Now(), q.kept.Load()
	if k != nil {
		w := q.known[k.first.ID]
		if w == nil || !q.trades(w) || !q.Engine.Could(q.view, q.asks(w), k.slot, now) {
			k = nil
			q.kept.Store(nil)
		}
	}
	if now < q.sought+market.Time(keepEvery.Milliseconds()) {
		return
	}
	q.sought = now
	for _, w := range q.line[:min(len(q.line), keepTries)] {
		if k != nil && k.first.ID == w.ID {
			return
		}
		if !q.trades(w) {
			continue
		}
		q.left -= q.view.Len()
		if cluster := q.Engine.Nearest(q.view, q.asks(w), now); cluster != "" {
			q.kept.Store(&kept{cluster, q.view.Listing(cluster).Slot, w.Reservation})
			return
		}
	}
}
