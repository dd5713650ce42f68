package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/provider"
	"github.com/bourse-dev/bourse/internal/transport"
)

// follower brings, reservation by reservation, what the broker says and what the Ledger
// says to those who act on it: for each change of either, and again, later and later, after an error.
type follower struct {
	cluster string
	market  *exchange.Exchange
	broker  transport.Broker
	log     *slog.Logger
	// sync acts on one reservation.
	sync func(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error
	// letter is given what another cluster says on the way to a peering.
	letter func(document string)
	// standing is given what the broker says of another's membership.
	standing func(api.Standing)
	// heard is told of each success and failure of the connection to the broker.
	heard func(error)

	queue workqueue.TypedRateLimitingInterface[string]
	mu    sync.Mutex
	says  map[string]*transport.Reservation // what the broker says, by ID
}

const (
	workers  = 8
	firstTry = 50 * time.Millisecond
	lastTry  = time.Minute
	notYet   = time.Second // how soon one looks again whether something is gone
)

func (f *follower) run(ctx context.Context) error {
	f.says = map[string]*transport.Reservation{}
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstTry, lastTry))
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for f.next(ctx) {
			}
		})
	}
	all.Go(func() { f.followBroker(ctx) })
	all.Go(func() { f.followLedger(ctx) })
	<-ctx.Done()
	f.queue.ShutDown()
	all.Wait()
	return nil
}

// next syncs one reservation.
func (f *follower) next(ctx context.Context) bool {
	id, stop := f.queue.Get()
	if stop {
		return false
	}
	defer f.queue.Done(id)
	f.mu.Lock()
	theirs := f.says[id]
	f.mu.Unlock()
	var ours *market.Reservation
	err := f.market.Read(ctx, func(s *market.State) { ours = s.Reservation(id) })
	if err == nil && (theirs != nil || ours != nil) {
		err = f.sync(ctx, theirs, ours)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		f.queue.Forget(id)
	case errors.Is(err, provider.ErrNotYet):
		f.queue.Forget(id)
		f.queue.AddAfter(id, notYet)
	default:
		f.log.Info("will try again", "reservation", id, "error", err)
		f.queue.AddRateLimited(id)
	}
	return true
}

// followBroker watches the broker for as long as it takes, coming back politely.
func (f *follower) followBroker(ctx context.Context) {
	token, wait := "", firstTry
	for ctx.Err() == nil {
		err := f.broker.Watch(ctx, token, func(e api.WatchEvent) error {
			switch e.Type {
			case api.WatchReservation:
				f.hear(e.Object)
			case api.WatchHandshake:
				f.letter(e.Document)
			case api.WatchStanding:
				f.standing(*e.Standing)
			case api.WatchBookmark:
				token, wait = e.Token, firstTry
				f.heard(nil)
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		f.heard(err)
		if code := api.CodeOf(err); code == api.CodeInvalid {
			token = ""
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)): // not all at once after the broker was away
		case <-ctx.Done():
		}
		wait = min(2*wait, 30*time.Second)
	}
}

// hear takes in what the broker says of one reservation. What is over everywhere is not kept.
func (f *follower) hear(r *transport.Reservation) {
	f.mu.Lock()
	f.says[r.ID] = r
	f.mu.Unlock()
	f.queue.Add(r.ID)
}

// followLedger syncs what changes in the Ledger, beginning with all that is in it.
func (f *follower) followLedger(ctx context.Context) {
	w, err := f.market.Watch(ctx, f.cluster, "", 0)
	if err != nil {
		return
	}
	defer w.Close()
	changed := w.Snapshot
	for err == nil {
		for _, r := range changed {
			f.queue.Add(r.ID)
		}
		changed, _, err = w.Next(ctx)
	}
}

// forget drops what the broker said of reservations that are over on both sides.
func (f *follower) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.says, id)
}
