package main

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/client-go/util/workqueue"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
)

// agent is both halves of an agent, over a ledger in memory, as internal/agent puts them together.
type agent struct {
	cluster  string
	ledger   *exchange.Exchange
	broker   transport.Broker
	gate     *gate.Gate
	borrower *requests.Borrower
	reserved func(uid string)

	queue  workqueue.TypedRateLimitingInterface[string]
	mu     sync.Mutex
	says   map[string]*transport.Reservation // what the broker says, by ID
	wishes map[string]requests.Wish          // by UID
}

// startAgent lets a member trade until ctx ends, with a ledger in that journal, folded after so
// many events (0: the default). reserved is told of each of its requests that is Reserved.
func startAgent(ctx context.Context, m *member, in journal.Journal,
	every uint64, running *sync.WaitGroup, reserved func(uid string)) (*agent, error) {
	log := slog.New(slog.DiscardHandler)
	ledger, err := exchange.Open(ctx, in, exchange.Options{Self: m.cluster, SnapshotEvery: every, Log: log})
	if err != nil {
		return nil, err
	}
	running.Go(func() { _ = ledger.Run(ctx) })
	measured, err := market.Measure(m.measured)
	if err != nil {
		return nil, err
	}
	if err := ledger.Observe(ctx, m.cluster, measured, true); err != nil {
		return nil, err
	}
	broker := transport.NewHTTP(m.cluster, m.broker)
	a := &agent{
		cluster: m.cluster, ledger: ledger, broker: broker, reserved: reserved,
		gate: gate.New(gate.Options{Cluster: m.cluster, Key: m.key,
			Market: ledger, Engine: match.New(), Broker: broker, Log: log}),
		borrower: requests.NewBorrower(requests.BorrowerOptions{Cluster: m.cluster,
			Key: m.key, Market: ledger, Broker: broker, Log: log}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		says:  map[string]*transport.Reservation{}, wishes: map[string]requests.Wish{},
	}
	listening := make(chan struct{})
	running.Go(func() { a.followBroker(ctx, listening) })
	running.Go(func() { a.followLedger(ctx) })
	for range 4 {
		running.Go(func() { a.work(ctx) })
	}
	context.AfterFunc(ctx, a.queue.ShutDown)
	select {
	case <-listening:
	case <-ctx.Done():
	}
	return a, ctx.Err()
}

// ask makes the reservation of a wish.
func (a *agent) ask(ctx context.Context, w requests.Wish) error {
	a.mu.Lock()
	a.wishes[w.Object.UID] = w
	a.mu.Unlock()
	return a.borrower.Ask(ctx, w)
}

func (a *agent) followBroker(ctx context.Context, listening chan<- struct{}) {
	for token := ""; ctx.Err() == nil; {
		_ = a.broker.Watch(ctx, token, func(e api.WatchEvent) error {
			switch e.Type {
			case api.WatchReservation:
				a.mu.Lock()
				a.says[e.Object.ID] = e.Object
				a.mu.Unlock()
				a.queue.Add(e.Object.ID)
			case api.WatchBookmark:
				if token == "" {
					close(listening)
				}
				token = e.Token
			}
			return nil
		})
	}
}

func (a *agent) followLedger(ctx context.Context) {
	w, err := a.ledger.Watch(ctx, a.cluster, "", 0)
	if err != nil {
		return
	}
	defer w.Close()
	for {
		changed, _, err := w.Next(ctx)
		if err != nil {
			return
		}
		for _, r := range changed {
			if r.State == api.Reserved && r.Object != nil {
				a.reserved(r.Object.UID)
			}
			a.queue.Add(r.ID)
		}
	}
}

func (a *agent) work(ctx context.Context) {
	for {
		id, stop := a.queue.Get()
		if stop {
			return
		}
		if err := a.sync(ctx, id); err != nil && ctx.Err() == nil {
			a.queue.AddRateLimited(id)
		} else {
			a.queue.Forget(id)
		}
		a.queue.Done(id)
	}
}

// sync hands one reservation to the half that it concerns.
func (a *agent) sync(ctx context.Context, id string) error {
	var ours *market.Reservation
	if err := a.ledger.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err != nil {
		return err
	}
	a.mu.Lock()
	theirs := a.says[id]
	var wish requests.Wish
	if ours != nil && ours.Object != nil {
		wish = a.wishes[ours.Object.UID]
	}
	a.mu.Unlock()
	switch {
	case ours != nil && ours.Provider == a.cluster, ours == nil && theirs != nil && theirs.Payload.Provider == a.cluster:
		return a.gate.Sync(ctx, theirs, ours)
	case ours == nil:
		return nil // the one that asks takes it up
	default:
		return a.borrower.Sync(ctx, theirs, ours, &wish)
	}
}
