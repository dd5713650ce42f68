package agent

import (
	"cmp"
	"context"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// relay is the brokers that were joined, as one: what concerns one reservation or one peer goes to whichever knows it, and what is
// asked of a broker to the first.
type relay struct {
	transport.Broker // the main one
	feeds            *feeds
	ledger           *exchange.Exchange
}

// knowing are those that say something of a reservation and whose word counts for it, in their order.
func (r relay) knowing(ctx context.Context, id string) (out []*feed) {
	var ours *market.Reservation
	if r.ledger != nil {
		_ = r.ledger.Read(ctx, func(s *market.State) { ours = s.Reservation(id) })
	}
	for _, f := range r.feeds.open() {
		if theirs := f.said(id); theirs != nil && (ours == nil || f.decides(theirs, ours)) {
			out = append(out, f)
		}
	}
	return out
}

func (r relay) first() transport.Broker {
	if f := r.feeds.broker(); f != nil {
		return f.broker
	}
	return r.Broker
}

// Clusters reads those that the first shows.
func (r relay) Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error) {
	return r.first().Clusters(ctx)
}

// Cluster reads one where it is shown.
func (r relay) Cluster(ctx context.Context, id string) (found api.Envelope[api.Cluster], err error) {
	for _, f := range r.feeds.brokers() {
		if found, err = f.broker.Cluster(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Cluster(ctx, id)
}

// Evaluate asks the first.
func (r relay) Evaluate(ctx context.Context, q api.Request) (api.Evaluation, error) {
	return r.first().Evaluate(ctx, q)
}

// Reservations reads them all, each once. That one broker is away hides none of another's.
func (r relay) Reservations(ctx context.Context) (all []transport.Reservation, failed error) {
	known, answered := map[string]bool{}, false
	for _, f := range r.feeds.brokers() {
		found, err := f.broker.Reservations(ctx)
		failed, answered = cmp.Or(failed, err), answered || err == nil
		for _, one := range found {
			if !known[one.ID] {
				known[one.ID] = true
				all = append(all, one)
			}
		}
	}
	if !answered && failed == nil {
		return r.Broker.Reservations(ctx)
	}
	if answered {
		return all, nil
	}
	return nil, failed
}

// Reservation reads it where it is known.
func (r relay) Reservation(ctx context.Context, id string) (found transport.Reservation, err error) {
	if known := r.knowing(ctx, id); len(known) > 0 {
		return known[0].broker.Reservation(ctx, id)
	}
	for _, f := range r.feeds.brokers() { // it may be over, and no broker speaks of it by itself
		if found, err = f.broker.Reservation(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Reservation(ctx, id)
}

// Progress tells who knows it, in their order, until one takes it; the others hear it when what they say of it comes here.
// Errors: that of the first.
func (r relay) Progress(ctx context.Context, id string, state api.State) (transport.Reservation, error) {
	var failed error
	for _, f := range r.knowing(ctx, id) {
		out, err := f.broker.Progress(ctx, id, state)
		if err == nil {
			return out, nil
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return transport.Reservation{}, failed
	}
	return r.Broker.Progress(ctx, id, state)
}

// Say takes every way at once, because nobody here knows at which of them the other listens now: one that takes it is enough, and
// one that does not answer holds up no other. Errors: that of the first way.
func (r relay) Say(ctx context.Context, cluster, document string) error {
	all := r.feeds.open()
	if len(all) == 1 {
		return all[0].broker.Say(ctx, cluster, document)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sayAgain)
	said, wait := make(chan error, len(all)), sync.WaitGroup{}
	failed := make([]error, len(all))
	for i, f := range all {
		wait.Go(func() {
			failed[i] = f.broker.Say(ctx, cluster, document)
			if failed[i] == nil {
				said <- nil
			}
		})
	}
	go func() {
		defer cancel()
		wait.Wait()
		said <- failed[0]
	}()
	return <-said
}

// stalls are where this cluster sells: its own connector, if it has one, and the brokers that it joined. What is said to one is
// said to all: none waits for another.
type stalls struct {
	transport.Broker
	feeds *feeds
	own   transport.Broker // nil: none
}

// all are those places, its own first.
func (s stalls) all() (out []transport.Broker) {
	if s.own != nil {
		out = append(out, s.own)
	}
	for _, f := range s.feeds.brokers() {
		out = append(out, f.broker)
	}
	return out
}

func (s stalls) each(tell func(transport.Broker) error) error {
	all := s.all()
	failed := make([]error, len(all))
	var told sync.WaitGroup
	for i, b := range all {
		told.Go(func() { failed[i] = tell(b) })
	}
	told.Wait()
	return cmp.Or(failed...)
}

// Publish implements transport.Broker.
func (s stalls) Publish(ctx context.Context, name, signed string) error {
	return s.each(func(b transport.Broker) error { return b.Publish(ctx, name, signed) })
}

// Withdraw implements transport.Broker.
func (s stalls) Withdraw(ctx context.Context, name string) error {
	return s.each(func(b transport.Broker) error { return b.Withdraw(ctx, name) })
}

// Catalog is what any of them shows, and the error of one that does not answer.
func (s stalls) Catalog(ctx context.Context, q api.CatalogQuery) (all []listing, err error) {
	var mu sync.Mutex
	err = s.each(func(b transport.Broker) error {
		found, err := b.Catalog(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	})
	return all, err
}
