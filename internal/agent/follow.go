package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
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
	feeds   *feeds
	log     *slog.Logger
	// sync acts on one reservation, as one feed shows it.
	sync func(ctx context.Context, f *feed, theirs *transport.Reservation, ours *market.Reservation) error
	// letter is given what another cluster says on the way to a peering.
	letter func(document string)
	// standing is given what the broker says of another's membership.
	standing func(api.Standing)
	// catalogs keep what each shows of what is sold.
	catalogs *catalogcache.Cache
	// heard is told of each success and failure of the connection to a broker.
	heard func(*feed, error)

	queue workqueue.TypedRateLimitingInterface[string]
}

const (
	workers  = 8
	firstTry = 50 * time.Millisecond
	lastTry  = time.Minute
	notYet   = time.Second // how soon one looks again whether something is gone
)

// prepare makes it ready to hear. It comes before run.
func (f *follower) prepare() {
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstTry, lastTry))
}

func (f *follower) run(ctx context.Context) error {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for f.next(ctx) {
			}
		})
	}
	for _, feed := range f.feeds.open() {
		all.Go(func() { f.followBroker(ctx, feed) })
	}
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
	err := f.settle(ctx, id)
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

// settle lets each feed that says something of a reservation, and whose word counts for it, act on it, and the first where none does.
// That one cannot be reached does not keep the others waiting.
func (f *follower) settle(ctx context.Context, id string) (failed error) {
	all, spoken := f.feeds.open(), false
	for _, feed := range all {
		ours, err := f.ours(ctx, id)
		if err != nil {
			return err
		}
		if feed.misses(ours) {
			if err := feed.show(ctx, ours); err != nil && !final(err) {
				failed = err
			}
		}
		theirs := feed.said(id)
		switch {
		case theirs == nil:
		case feed.decides(theirs, ours):
			spoken = true
			failed = cmp.Or(f.sync(ctx, feed, theirs, ours), failed)
		default:
			failed = cmp.Or(feed.passes(ctx, theirs, ours), failed)
		}
	}
	ours, err := f.ours(ctx, id)
	if err == nil && ours != nil && !spoken {
		err = f.sync(ctx, all[0], nil, ours)
	}
	return cmp.Or(err, failed)
}

// final says that to show it again changes nothing.
func final(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeTooManyRequests, api.CodeInternal:
		return false
	}
	return true
}

func (f *follower) ours(ctx context.Context, id string) (ours *market.Reservation, err error) {
	err = f.market.Read(ctx, func(s *market.State) { ours = s.Reservation(id) })
	return ours, err
}

// lookAgain queues what is bound, ends or waits: a feed has said all that it knows, and may miss some of it.
func (f *follower) lookAgain(ctx context.Context) {
	_ = f.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(f.cluster, 0) {
			if r.Bound() || r.State == api.Releasing || r.State == api.Pending {
				f.queue.Add(r.ID)
			}
		}
	})
}

// followBroker watches a broker for as long as it takes, coming back politely.
func (f *follower) followBroker(ctx context.Context, from *feed) {
	token, wait := "", firstTry
	for ctx.Err() == nil {
		var err error
		if from.greet != nil {
			err = from.greet(ctx)
		}
		if err == nil {
			err = from.broker.WatchCatalog(ctx, token, f.catalogs.Token(from.via), func(e api.WatchEvent) error {
				f.catalogs.Record(from.via, e)
				switch e.Type {
				case api.WatchSnapshot:
					from.began(e.Complete)
				case api.WatchReservation:
					if !from.hear(e.Object) && from.tooMuch() == 1 {
						f.log.Warn("a broker says more of reservations than is kept, or what does not concern this cluster", "broker", from.name(), "reservation", e.Object.ID)
					}
					f.queue.Add(e.Object.ID)
				case api.WatchHandshake:
					f.letter(e.Document)
				case api.WatchStanding:
					if from.via == "" { // brokers may differ, and to a connector each whom it knows is a member: the main one's word is shown
						f.standing(*e.Standing)
					}
				case api.WatchBookmark:
					token, wait = e.Token, firstTry
					f.heard(from, nil)
					if from.ended() {
						f.lookAgain(ctx)
					}
				}
				return nil
			})
		}
		if ctx.Err() != nil {
			return
		}
		from.lost()
		f.catalogs.MarkLost(from.via)
		f.heard(from, err)
		if code := api.CodeOf(err); code == api.CodeInvalid {
			token = ""
			f.catalogs.DropToken(from.via)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)): // not all at once after the broker was away
		case <-from.woken:
			wait = firstTry
		case <-ctx.Done():
		}
		wait = min(2*wait, 30*time.Second)
	}
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
