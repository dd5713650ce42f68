// Package queue serves the requests that wait at a broker.
//
// Waiting requests are in the market, in the journal. This package keeps only state that it can lose.
// One goroutine, in the leading broker, checks the changes ten times a second:
//
//   - A cluster that has more capacity than before, or is back, or is new, is offered to the waiting
//     requests in their order: by priority, then by age. A request that it suits is decided like a new
//     request, and held.
//   - Each waiting request is also decided again in turn. This detects changes that no cluster
//     advertises, such as a time or an uptime that was reached, and renews the explanation.
//
// A request whose consumer's agent is away is passed over until it is back: nobody would sign.
//
// One check costs at most as much as a few decisions. The rest waits for the next check.
//
// A request is served wherever possible, even before others that want more. To keep small requests
// from delaying a large one forever, one cluster is kept for the first request in the queue that some
// cluster could serve: the cluster that lacks the least capacity for it. Requests behind it in the
// order, waiting or new, are not placed there until it is served or gives up. There is one kept cluster
// for the first request, not one for each request, so that nobody can block a federation with large
// requests.
package queue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

const (
	// lookEvery is the interval of the checks.
	lookEvery = 100 * time.Millisecond
	// budget is the number of clusters that one check may test against a request.
	budget = 100_000
	// suits is the cost of testing one cluster by itself.
	suits = 8
	// keepEvery is the interval at which the kept cluster is chosen; keepTries is the number of requests
	// at the head of the queue that are tried.
	keepEvery = time.Second
	keepTries = 8
)

// Queue serves the waiting requests of a market.
type Queue struct {
	Market *exchange.Exchange
	Engine *match.Engine
	Log    *slog.Logger

	kept atomic.Pointer[kept]
	last atomic.Int64 // when a cluster last grew

	mu      sync.Mutex
	onGrown map[string]func() // by cluster, what is called when a cluster next grows

	// Owned by the goroutine of Run.
	seen   *market.View // the last checked view
	queued uint64       // the version of the queue in line
	line   []*waiter
	known  map[string]*waiter
	// grown holds the slots of clusters with more capacity than before, and the place in the line up to
	// which they were offered.
	grown  map[int]*market.Reservation
	turn   int // the next request to decide again
	left   int // the rest of the budget
	sought market.Time
}

// waiter is a waiting request.
type waiter struct {
	*market.Reservation
	ask match.Ask
	// tried: it was decided since this process knows it, and its consumer is here. held: it no longer waits.
	tried, held bool
}

// New makes the queue of a market. In a nil Queue no request waits.
func New(x *exchange.Exchange, engine *match.Engine, log *slog.Logger) *Queue {
	return &Queue{Market: x, Engine: engine, Log: log, known: map[string]*waiter{}, grown: map[int]*market.Reservation{}}
}

// Run serves until ctx ends or the market stops. Errors: those of the market.
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

// look makes one check within the budget. Errors: those of the market, which has stopped.
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

// notice records the clusters that have more capacity than at the last check.
func (q *Queue) notice(view *market.View) {
	now, seen := q.Market.Now(), q.seen
	q.seen = view
	if seen == nil { // it is not known what was before
		q.callGrown(now)
		return
	}
	grown := false
	view.Changed(seen, func(slot int) {
		if slot < seen.Len() && !more(seen.At(slot), view.At(slot), now) {
			return
		}
		grown = true
		if view.Waiting > 0 { // a request that comes later is decided in full
			q.grown[slot] = nil
		}
	})
	if grown {
		q.callGrown(now)
	}
}

// read reads the line again if it changed.
func (q *Queue) read(ctx context.Context, view *market.View) error {
	if view.Queued == q.queued && q.line != nil {
		return nil
	}
	var records []*market.Reservation
	if err := q.Market.Read(ctx, func(s *market.State) { records = s.Waiting() }); err != nil {
		return err
	}
	q.queued = view.Queued // a newer version is read again next time
	q.line = q.line[:0]
	known := make(map[string]*waiter, len(records))
	for _, r := range records {
		w := q.known[r.ID]
		if w == nil || w.Revision != r.Revision {
			ask, err := q.Engine.Again(r)
			if err != nil { // a later version may have other rules
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

// trades reports whether the consumer may trade now, and its agent can sign. A waiter that is passed over is
// decided again as soon as it can.
func (q *Queue) trades(view *market.View, w *waiter) bool {
	l := view.Listing(w.Consumer)
	if l != nil && l.Active() && !l.Away(q.Market.Now()) {
		return true
	}
	w.tried = false
	return false
}

// question returns the ask of a waiter, with the cluster that is kept for an earlier one.
func (q *Queue) question(w *waiter) match.Ask {
	ask := w.ask
	if k := q.kept.Load(); k != nil && k.first.ID != w.ID && k.first.Precedes(w.Reservation) {
		ask.Kept = k.cluster
	}
	return ask
}

// showGrown offers the clusters with more capacity to the waiting requests.
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

// show offers one cluster to the waiting requests, from where the last check stopped.
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

// tryNext decides further requests again: those not yet decided by this process, and the next in turn.
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

// try decides a waiting request, and holds it or keeps the explanation of the rejection.
func (q *Queue) try(ctx context.Context, w *waiter) error {
	view, now := q.Market.View(), q.Market.Now()
	if w.held || !q.trades(view, w) {
		return nil
	}
	q.left -= view.Len() + suits
	w.tried = true
	ranking := q.Engine.Decide(view, q.question(w), now)
	if len(ranking.Providers) == 0 {
		return q.Market.RecordTry(ctx, w.ID, &ranking.Decision)
	}
	out, err := q.Market.Do(ctx, market.Serve{ID: w.ID, Candidates: ranking.Providers,
		Plans: ranking.Plans, Decision: &ranking.Decision})
	switch {
	case err == nil:
		w.held = true
		q.Log.Info("a request that waited is held", "reservation",
			w.ID, "provider", out.Reservation.Provider, "waited", (now.Go().Sub(w.Since().Go())).Round(time.Second))
	case api.CodeOf(err) == api.CodeUnavailable:
		return err
	}
	return nil // another decision was faster, or it no longer waits: the next check sees it
}
