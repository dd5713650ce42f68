// Package queue serves the requests that wait at a broker.
//
// What waits is in the market, journaled; this package holds nothing that must not be forgotten. One goroutine, in the broker that
// leads, looks ten times a second at what has changed:
//
//   - A cluster that has more than before, or is back, or is new, is shown to those that wait, in their order: by priority, then
//     age. Whoever it suits is decided about like a new request, and held.
//   - Besides, each request that waits is decided again in turn, so that what no cluster says (a time that has come, an uptime that
//     was reached) is noticed, and its explanation is of now.
//
// Whatever there is to do, one look costs at most as much as a few decisions: the rest is for the next.
//
// A request is served wherever it can be, also before others that want more. So that small ones cannot keep a large one waiting for
// ever, one cluster is kept for the first in the queue that some cluster could serve: the one that lacks least for it. What comes
// behind it in the order of the queue, waiting or new, is not placed there until it is served, or gives up. One for the first, not
// one for each: so nobody can keep a federation for itself by asking for much.
package queue

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

const (
	// lookEvery is how often the queue looks at what changed.
	lookEvery = 100 * time.Millisecond
	// budget is how many clusters one look may ask whether they suit a request.
	budget = 100_000
	// suits is what it costs to ask one cluster by itself.
	suits = 8
	// keepEvery is how often a cluster is looked for that is to be kept, and keepTries for how many of the first.
	keepEvery = time.Second
	keepTries = 8
)

// Queue serves what waits in a market.
type Queue struct {
	Market *exchange.Exchange
	Engine *match.Engine
	Log    *slog.Logger

	kept atomic.Pointer[kept]

	// Owned by the goroutine of Run.
	seen   *market.View // what was looked at last
	queued uint64       // the queue's version in line
	line   []*waiter
	known  map[string]*waiter
	// grown are the slots of clusters that have more than before, and the place in the line up to which they were shown.
	grown  map[int]*market.Reservation
	turn   int // whose turn it is to be decided again
	left   int // of the budget
	sought market.Time
}

// waiter is a request that waits.
type waiter struct {
	*market.Reservation
	ask match.Ask
	// tried says that it has been decided since it was known here, held that it waits no longer.
	tried, held bool
}

// kept is a cluster that is kept for the first in the queue.
type kept struct {
	cluster string
	slot    int
	first   *market.Reservation
}

// New makes the queue of a market. Nil is one in which nobody waits.
func New(x *exchange.Exchange, engine *match.Engine, log *slog.Logger) *Queue {
	return &Queue{Market: x, Engine: engine, Log: log, known: map[string]*waiter{}, grown: map[int]*market.Reservation{}}
}

// Kept is the cluster that a new request of that priority is not placed on, because it is kept for one that waits; empty: none.
func (q *Queue) Kept(priority int32) string {
	if q == nil {
		return ""
	}
	if k := q.kept.Load(); k != nil && priority <= k.first.Priority() {
		return k.cluster
	}
	return ""
}

// Run serves until ctx ends, or the market does, which itself says why.
func (q *Queue) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if q.look(ctx) != nil {
			return nil
		}
	}
}

// look does what there is to do, within the budget. Errors are the market's: it has stopped.
func (q *Queue) look(ctx context.Context) error {
	view := q.Market.View()
	q.notice(view)
	if view.Waiting == 0 {
		q.line, q.queued = nil, view.Queued
		clear(q.known)
		clear(q.grown)
		q.kept.Store(nil)
		return nil
	}
	if err := q.read(ctx, view); err != nil {
		return err
	}
	q.left = budget
	q.keep(view)
	if err := q.showGrown(ctx); err != nil {
		return err
	}
	return q.tryNext(ctx)
}

// notice notes which clusters have more than when it was looked last.
func (q *Queue) notice(view *market.View) {
	now, seen := q.Market.Now(), q.seen
	if q.seen = view; seen == nil || view.Waiting == 0 {
		return // whoever comes to wait is decided about in full
	}
	view.Changed(seen, func(slot int) {
		if slot >= seen.Len() || more(seen.At(slot), view.At(slot), now) {
			q.grown[slot] = nil
		}
	})
}

// read reads the line anew, if it changed.
func (q *Queue) read(ctx context.Context, view *market.View) error {
	if view.Queued == q.queued && q.line != nil {
		return nil
	}
	var records []*market.Reservation
	if err := q.Market.Read(ctx, func(s *market.State) { records = s.Waiting() }); err != nil {
		return err
	}
	q.queued = view.Queued // or newer, and then it is read once more
	q.line = q.line[:0]
	known := make(map[string]*waiter, len(records))
	for _, r := range records {
		w := q.known[r.ID]
		if w == nil || w.Revision != r.Revision {
			ask, err := q.Engine.Again(r)
			if err != nil { // a later version has another idea of what is valid
				q.Log.Warn("a request that waits cannot be decided", "reservation", r.ID, "error", err)
				continue
			}
			w = &waiter{Reservation: r, ask: ask}
		}
		known[r.ID] = w
		q.line = append(q.line, w)
	}
	q.known = known
	return nil
}

// keep chooses the cluster that is kept for the first in the queue that some cluster could serve. A cluster is kept as long as it
// could, so that it empties.
func (q *Queue) keep(view *market.View) {
	now, k := q.Market.Now(), q.kept.Load()
	if k != nil {
		w := q.known[k.first.ID]
		if w == nil || !q.trades(view, w) || !q.Engine.Could(view, w.ask, k.slot, now) {
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
		if !q.trades(view, w) {
			continue
		}
		q.left -= view.Len()
		if cluster := q.Engine.Nearest(view, w.ask, now); cluster != "" {
			q.kept.Store(&kept{cluster, view.Listing(cluster).Slot, w.Reservation})
			return
		}
	}
}

// trades says whether the consumer may trade now.
func (q *Queue) trades(view *market.View, w *waiter) bool {
	l := view.Listing(w.Consumer)
	return l != nil && l.Active()
}

// question is the ask of a waiter, beside what is kept for who stands before it.
func (q *Queue) question(w *waiter) match.Ask {
	ask := w.ask
	if k := q.kept.Load(); k != nil && k.first.ID != w.ID && k.first.Precedes(w.Reservation) {
		ask.Kept = k.cluster
	}
	return ask
}

// showGrown shows the clusters that have more to those that wait.
func (q *Queue) showGrown(ctx context.Context) error {
	slots := make([]int, 0, len(q.grown))
	for slot := range q.grown {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for _, slot := range slots {
		if q.left <= 0 {
			return nil
		}
		if err := q.show(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}

// show shows one cluster to those that wait, from where it was left.
func (q *Queue) show(ctx context.Context, slot int) error {
	begin := 0
	if last := q.grown[slot]; last != nil {
		begin, _ = slices.BinarySearchFunc(q.line, last, func(w *waiter, last *market.Reservation) int {
			if w.Precedes(last) {
				return -1
			}
			return 1
		})
	}
	for _, w := range q.line[begin:] {
		if q.left <= 0 {
			q.grown[slot] = w.Reservation
			return nil
		}
		q.left -= suits
		view := q.Market.View()
		if w.held || !q.trades(view, w) || !q.Engine.Serves(view, q.question(w), slot, q.Market.Now()) {
			continue
		}
		if err := q.try(ctx, w); err != nil {
			return err
		}
	}
	delete(q.grown, slot)
	return nil
}

// tryNext decides some again: those of whom nothing is known here, and whose turn it is.
func (q *Queue) tryNext(ctx context.Context) error {
	for _, w := range q.line {
		if !w.tried && q.left > 0 {
			if err := q.try(ctx, w); err != nil {
				return err
			}
		}
	}
	if len(q.line) == 0 || q.left <= 0 {
		return nil
	}
	q.turn = (q.turn + 1) % len(q.line)
	return q.try(ctx, q.line[q.turn])
}

// try decides about a request that waits, and holds it, or keeps the explanation of why not.
func (q *Queue) try(ctx context.Context, w *waiter) error {
	view, now := q.Market.View(), q.Market.Now()
	q.left -= view.Len() + suits
	w.tried = true
	if w.held || !q.trades(view, w) {
		return nil
	}
	ranking := q.Engine.Decide(view, q.question(w), now)
	if len(ranking.Providers) == 0 {
		return q.Market.Try(ctx, w.ID, &ranking.Decision)
	}
	out, err := q.Market.Do(ctx, market.Serve{ID: w.ID, Candidates: ranking.Providers, Plans: ranking.Plans, Decision: &ranking.Decision})
	switch {
	case err == nil:
		w.held = true
		q.Log.Info("a request that waited is held", "reservation", w.ID, "provider", out.Reservation.Provider, "waited", (now.Go().Sub(w.Since().Go())).Round(time.Second))
	case api.CodeOf(err) == api.CodeUnavailable:
		return err
	}
	return nil // others were faster, or it waits no longer: the next look shows it
}
