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
// A request whose consumer's agent is away is passed over until it is back: nobody would sign. A cluster that
// refused a request for a cause that passes by itself is offered to it again later.
//
// One check costs at most as much as a few decisions. The rest waits for the next check. Capacity that comes free
// during a check is offered from the front of the queue, like that of before.
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
	// restAfter is how long a request is not offered a cluster that refused it for a cause that passes by itself. It
	// doubles with each such refusal, so that the number of refusals that a request may have lasts for its waiting.
	restAfter = time.Minute
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
	view   *market.View // the last view: all is decided by it
	queued uint64       // the version of the queue in line
	line   []*waiter
	known  map[string]*waiter
	// grown holds the slots of clusters with more capacity than before, and the first request in the line that
	// was not offered it yet; nil: none was.
	grown  map[int]*market.Reservation
	turn   int // the next request to decide again
	left   int // the rest of the budget
	sought market.Time
}

// waiter is a waiting request.
type waiter struct {
	*market.Reservation
	ask   match.Ask
	since market.Time // when the queue read it
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
	q.notice()
	if q.view.Waiting == 0 {
		q.line, q.queued = nil, q.view.Queued
		clear(q.known)
		clear(q.grown)
		q.kept.Store(nil)
		return nil
	}
	if err := q.read(ctx); err != nil {
		return err
	}
	q.left = budget
	q.keep()
	if err := q.serve(ctx); err != nil {
		return err
	}
	return q.tryNext(ctx)
}

// notice reads the current view, and records the clusters that have more capacity than in the last one.
func (q *Queue) notice() (grown bool) {
	now, seen := q.Market.Now(), q.view
	q.view = q.Market.View()
	if seen == nil { // it is not known what was before
		q.callGrown(now)
		return false
	}
	q.view.Changed(seen, func(slot int) {
		if slot < seen.Len() && !more(seen.At(slot), q.view.At(slot), now) {
			return
		}
		grown = true
		if q.view.Waiting > 0 { // a request that comes later is decided in full
			q.grown[slot] = nil
		}
	})
	if grown {
		q.callGrown(now)
	}
	return grown
}

// read reads the line again if it changed.
func (q *Queue) read(ctx context.Context) error {
	if q.view.Queued == q.queued && q.line != nil {
		return nil
	}
	var records []*market.Reservation
	if err := q.Market.Read(ctx, func(s *market.State) { records = s.Waiting() }); err != nil {
		return err
	}
	q.queued = q.view.Queued // a newer version is read again next time
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
			w = &waiter{Reservation: r, ask: ask, since: q.Market.Now()}
		}
		known[r.ID] = w
		q.line = append(q.line, w)
	}
	q.known = known
	return nil
}

// trades reports whether the consumer may trade now, and its agent can sign. A waiter that is passed over is
// decided again as soon as it can.
func (q *Queue) trades(w *waiter) bool {
	l := q.view.Listing(w.Consumer)
	if l != nil && l.Active() && !l.Away(q.Market.Now()) {
		return true
	}
	w.tried = false
	return false
}

// asks returns the ask of a waiter, which has also been refused by the clusters that rest for it now.
func (q *Queue) asks(w *waiter) match.Ask {
	ask, waited := w.ask, q.Market.Now()-w.since
	for cluster, refusals := range ask.Passing {
		if waited < market.Time(restAfter.Milliseconds())<<(refusals-1) {
			ask.Refused = append(ask.Refused[:len(ask.Refused):len(ask.Refused)], cluster)
		}
	}
	return ask
}

// question returns the ask of a waiter, with the cluster that is kept for an earlier one.
func (q *Queue) question(w *waiter) match.Ask {
	ask := q.asks(w)
	if k := q.kept.Load(); k != nil && k.first.ID != w.ID && k.first.Precedes(w.Reservation) {
		ask.Kept = k.cluster
	}
	return ask
}

// offer is a cluster that grew, and the place in the line up to which it was offered.
type offer struct{ slot, from int }

// offers returns the clusters that grew, by slot.
func (q *Queue) offers() []offer {
	all := make([]offer, 0, len(q.grown))
	for slot, last := range q.grown {
		from := 0
		if last != nil {
			from, _ = slices.BinarySearchFunc(q.line, last, func(w *waiter, last *market.Reservation) int {
				if w.Precedes(last) {
					return -1
				}
				return 1
			})
		}
		all = append(all, offer{slot, from})
	}
	slices.SortFunc(all, func(a, b offer) int { return a.slot - b.slot })
	return all
}

// serve goes along the line, and again for the clusters that grow meanwhile, until each request was offered each
// cluster that grew.
func (q *Queue) serve(ctx context.Context) error {
	for again := true; again; {
		var err error
		if again, err = q.goAlong(ctx); err != nil {
			return err
		}
	}
	return nil
}

// goAlong decides, in the order of the line, the requests that this process has not decided yet, and those that a
// cluster that grew suits. All are decided by one view, which is renewed after each attempt to hold. It stops where
// the budget ends, or where the new view has a cluster that grew (again): what came free meanwhile belongs to the
// first request that it suits, and not to the next one in the line.
func (q *Queue) goAlong(ctx context.Context) (again bool, err error) {
	offers, first := q.offers(), len(q.line) // first is the first place to which something is offered
	for _, o := range offers {
		first = min(first, o.from)
	}
	stopBefore := func(i int) {
		for _, o := range offers {
			switch {
			case i == len(q.line):
				delete(q.grown, o.slot)
			case o.from <= i:
				q.grown[o.slot] = q.line[i].Reservation
			}
		}
	}
	for i, w := range q.line {
		if w.held || w.tried && i < first {
			continue
		}
		if q.left <= 0 {
			stopBefore(i)
			return false, nil
		}
		if !q.trades(w) || w.tried && !q.suited(w, i, offers) {
			continue
		}
		attempted, err := q.try(ctx, w)
		if err != nil {
			return false, err
		}
		if attempted {
			stopBefore(i + 1)
			if q.notice() {
				return true, nil
			}
		}
	}
	clear(q.grown)
	return false, nil
}

// suited reports whether one of the offers may serve the request in a place of the line.
func (q *Queue) suited(w *waiter, place int, offers []offer) bool {
	if len(offers)*suits > q.view.Len() {
		return true // to decide it costs less
	}
	ask, now := q.question(w), q.Market.Now()
	return slices.ContainsFunc(offers, func(o offer) bool {
		if o.from > place {
			return false
		}
		q.left -= suits
		return q.Engine.Serves(q.view, ask, o.slot, now)
	})
}

// tryNext decides the next request in turn again.
func (q *Queue) tryNext(ctx context.Context) error {
	if len(q.line) == 0 || q.left <= 0 || len(q.grown) > 0 {
		return nil
	}
	q.turn = (q.turn + 1) % len(q.line)
	if w := q.line[q.turn]; !w.held && q.trades(w) {
		_, err := q.try(ctx, w)
		return err
	}
	return nil
}

// try decides a waiting request by the last view. It attempts to hold it, or keeps the explanation of the rejection.
func (q *Queue) try(ctx context.Context, w *waiter) (attempted bool, err error) {
	now := q.Market.Now()
	q.left -= q.view.Len() + suits
	w.tried = true
	ranking := q.Engine.Decide(q.view, q.question(w), now)
	if len(ranking.Providers) == 0 {
		return false, q.Market.RecordTry(ctx, w.ID, &ranking.Decision)
	}
	out, err := q.Market.Do(ctx, market.Serve{ID: w.ID, Candidates: ranking.Providers,
		Plans: ranking.Plans, Decision: &ranking.Decision})
	switch {
	case err == nil:
		w.held = true
		q.Log.Info("a request that waited is held", "reservation",
			w.ID, "provider", out.Reservation.Provider, "waited", (now.Go().Sub(w.Since().Go())).Round(time.Second))
	case api.CodeOf(err) == api.CodeUnavailable:
		return true, err
	}
	return true, nil // another decision was faster, or it no longer waits: the next check sees it
}
