package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/gate"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// follower brings, reservation by reservation, what the broker says and what the Ledger
// says to those who act on it: for each change of either, and again, later and later, after an error.
type follower struct {
	cluster  string
	market   *exchange.Exchange
	sessions *brokersession.Sessions
	log      *slog.Logger
	// sync acts on one reservation, as one session shows it. pass takes from a session what counts although its word does not.
	sync, pass actOn

	queue workqueue.TypedRateLimitingInterface[string]
}

// actOn acts on one reservation: theirs is what a session says of it, ours what the Ledger says.
type actOn func(ctx context.Context, s *brokersession.Session, theirs *transport.Reservation, ours *market.Reservation) error

const (
	workers  = 8
	firstTry = 50 * time.Millisecond
	lastTry  = time.Minute
	notYet   = time.Second // how soon one looks again whether something is gone
)

func newFollower(cluster string, market *exchange.Exchange, sessions *brokersession.Sessions, sync, pass actOn, log *slog.Logger) *follower {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstTry, lastTry))
	return &follower{cluster: cluster, market: market, sessions: sessions, sync: sync, pass: pass, log: log, queue: queue}
}

func (f *follower) run(ctx context.Context) error {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for f.next(ctx) {
			}
		})
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
	case errors.Is(err, gate.ErrNotYet):
		f.queue.Forget(id)
		f.queue.AddAfter(id, notYet)
	default:
		f.log.Info("will try again", "reservation", id, "error", err)
		f.queue.AddRateLimited(id)
	}
	return true
}

// settle lets each session that says something of a reservation, and whose word counts for it, act on it, and the first where none does.
// That one cannot be reached does not keep the others waiting.
func (f *follower) settle(ctx context.Context, id string) (failed error) {
	all, spoken := f.sessions.Open(), false
	for _, session := range all {
		ours, err := f.ours(ctx, id)
		if err != nil {
			return err
		}
		if session.IsMissing(ours) {
			if err := session.ShowAgreement(ctx, ours); err != nil && !final(err) {
				failed = err
			}
		}
		theirs := session.Shown(id)
		switch {
		case theirs == nil:
		case session.Decides(theirs, ours):
			spoken = true
			failed = cmp.Or(f.sync(ctx, session, theirs, ours), failed)
		default:
			failed = cmp.Or(f.pass(ctx, session, theirs, ours), failed)
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

// lookAgain queues what is bound, ends or waits: a broker has said all that it knows, and may miss some of it.
func (f *follower) lookAgain(ctx context.Context) {
	_ = f.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(f.cluster, 0) {
			if r.Bound() || r.State == api.Releasing || r.State == api.Pending {
				f.queue.Add(r.ID)
			}
		}
	})
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
