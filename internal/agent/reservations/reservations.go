// Package reservations compares, for each reservation, what brokers show with what the Ledger says, and
// hands the difference to the half of the agent that acts on it: the gate where this cluster is the
// provider, the borrower where it is the consumer.
//
// It does so after each change of either side, and again after an error, each time later. Start at
// [Reservations.Run], then read settle and sync. Repeating anything is harmless.
package reservations

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/turns"
)

const (
	workers    = 32
	perSession = 8                     // of the workers, at most, at one session: see turns.Slots
	firstRetry = 50 * time.Millisecond // after an error; each retry waits twice as long as the one before
	lastRetry  = time.Minute
	freeRetry  = time.Second // until a reservation that ends is looked at again, while its pods are still here
)

// Options say what is compared, and who acts.
type Options struct {
	Cluster string
	// Namespace is the agent's. Contracts in which this cluster sells are shown there.
	Namespace string
	Ledger    *exchange.Exchange
	// Sessions has at least one session.
	Sessions *session.Sessions
	Provider Provider
	Consumer Consumer
	// Contracts shows the contract of a reservation in a namespace, if it has one. It returns when to show it again,
	// 0 for never.
	Contracts interface {
		Show(ctx context.Context, namespace string, record *market.Reservation) (again time.Duration, err error)
	}
	// Peer makes the Peering that a reservation needs. Nil, without Liqo: nothing does.
	Peer  func(ctx context.Context, record *market.Reservation) error
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Provider acts where this cluster is the provider.
type Provider struct {
	Gate *gate.Gate
	// Instructions shows a reservation as a ProviderInstruction. It returns when to show it again, 0 for never.
	Instructions interface {
		Show(ctx context.Context, record *market.Reservation) (again time.Duration, err error)
	}
	// Offers looks again at how much of an offer is sold.
	Offers interface{ Look(name string) }
	// Lent looks again at what a consumer has reserved. Nil: nothing does.
	Lent func(consumer string)
}

// Consumer acts where this cluster is the consumer.
type Consumer struct {
	Borrower *requests.Borrower
	// Requests makes the controller look at the request of a reservation, and returns what that
	// wishes; nil: it is gone.
	Requests interface {
		Look(ctx context.Context, record *market.Reservation) (*requests.Wish, error)
	}
}

// Reservations follows the reservations of this cluster. Several goroutines may use it.
type Reservations struct {
	options Options
	queue   workqueue.TypedRateLimitingInterface[string] // of IDs
	slots   *turns.Slots[*session.Session, string]
	turns   sync.Map // by ID, the turns.Turn of a record that is not over
}

// New returns what follows nothing until Run. Its queue ends with ctx, also if Run is never called.
func New(ctx context.Context, o Options) *Reservations {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	r := &Reservations{options: o}
	r.queue = turns.New(r.turnOf).Workqueue("", o.Clock, limiter)
	context.AfterFunc(ctx, r.queue.ShutDown)
	r.slots = turns.NewSlots[*session.Session](turns.SlotsOptions[string]{
		Workers: workers, Most: perSession, Places: func() int { return len(o.Sessions.Open()) },
		Find: r.turnOf, Again: r.queue.Add,
	})
	return r
}

// Look makes it look at a reservation. It does not wait.
func (r *Reservations) Look(id string) { r.queue.Add(id) }

// LookAtAll makes it look at each reservation that is bound, ends or waits. Call it when a broker
// has shown all that it knows: it may miss some of them.
func (r *Reservations) LookAtAll(ctx context.Context) {
	all, _ := r.options.Ledger.Reservations(ctx)
	for _, record := range all {
		if record.Bound() || record.State == api.Releasing || record.State == api.Pending {
			r.queue.Add(record.ID)
		}
	}
}

// Run follows the reservations until ctx ends. It looks at each that the Ledger has when it begins.
func (r *Reservations) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	all.Go(func() { r.followLedger(ctx) })
	<-ctx.Done()
	r.queue.ShutDown()
	all.Wait()
	return nil
}

// followLedger looks at each reservation that the Ledger has, and again whenever it changes there, until ctx
// or the Ledger ends.
func (r *Reservations) followLedger(ctx context.Context) {
	r.options.Ledger.Follow(ctx, r.options.Cluster, func(changed []*market.Reservation) {
		for _, record := range changed {
			r.noteTurn(record)
			r.queue.Add(record.ID)
		}
	})
}

// noteTurn notes the turn of a record of the Ledger: that of the consumer where this cluster lends, and that of the
// request's namespace where it borrows.
func (r *Reservations) noteTurn(record *market.Reservation) {
	turn := turns.Turn{Party: "consumer " + record.Consumer, Ends: record.State == api.Releasing}
	if record.Consumer == r.options.Cluster && record.Object != nil {
		turn.Party = "namespace " + record.Object.Namespace
	}
	if record.State.Over() {
		r.turns.Delete(record.ID)
	} else {
		r.turns.Store(record.ID, turn)
	}
}

// turnOf returns the turn of a reservation: as its record says or, without one, as a session shows it.
func (r *Reservations) turnOf(id string) (turn turns.Turn) {
	noted, known := r.turns.Load(id)
	if known {
		turn = noted.(turns.Turn)
	}
	for _, session := range r.options.Sessions.Open() {
		shown := session.Shown(id)
		if shown == nil {
			continue
		}
		if !known {
			turn.Party = "consumer " + shown.Payload.Consumer
		}
		state := shown.Payload.State
		turn.Ends = turn.Ends || state == api.Releasing || state.Over()
	}
	return turn
}

// next settles one reservation. It returns false once the queue is shut down.
func (r *Reservations) next(ctx context.Context) bool {
	id, stop := r.queue.Get()
	if stop {
		return false
	}
	defer r.queue.Done(id)
	err := r.settle(ctx, id)
	switch {
	case err == nil || ctx.Err() != nil:
		r.queue.Forget(id)
	case errors.Is(err, gate.ErrNotYet):
		r.queue.Forget(id)
		r.queue.AddAfter(id, freeRetry)
	default:
		r.options.Log.Info("will try again", "reservation", id, "error", err)
		r.queue.AddRateLimited(id)
	}
	return true
}

// settle acts on a reservation for each session that shows it, and for the first session where no
// session's word counts. An error of one session does not keep the others from being served.
func (r *Reservations) settle(ctx context.Context, id string) (failed error) {
	sessions, decided := r.options.Sessions.Open(), false
	r.slots.Keep(id, sessions...) // not those that were closed while it waited
	for _, session := range sessions {
		decides, err := r.settleAt(ctx, session, id)
		decided, failed = decided || decides, cmp.Or(err, failed)
	}
	record, err := r.options.Ledger.Reservation(ctx, id)
	if err == nil && record != nil && !decided {
		err = r.sync(ctx, sessions[0], nil, record)
	}
	return cmp.Or(err, failed)
}

// settleAt acts on a reservation as one session shows it. decides says that the session's word
// counts. It does nothing where a session has neither shown nor lost the reservation, and nothing
// yet where too many others wait for its answer.
func (r *Reservations) settleAt(
	ctx context.Context, s *session.Session, id string,
) (decides bool, failed error) {
	record, err := r.options.Ledger.Reservation(ctx, id)
	if err != nil {
		return false, err
	}
	shown, missing := s.Shown(id), s.IsMissing(record)
	if shown == nil && !missing {
		r.slots.Leave(s, id)
		return false, nil
	}
	if !r.slots.Take(s, id) {
		return shown != nil && s.Decides(shown, record), nil
	}
	defer r.slots.Leave(s, id)
	if missing {
		if err := s.ShowAgreement(ctx, record); api.IsTemporary(err) {
			failed = err
		}
	}
	switch shown = s.Shown(id); {
	case shown == nil:
		return false, failed
	case s.Decides(shown, record):
		return true, cmp.Or(r.sync(ctx, s, shown, record), failed)
	default:
		return false, cmp.Or(r.applySigned(ctx, s, shown, record), failed)
	}
}
