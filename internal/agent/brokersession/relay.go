package brokersession

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Relay is all open sessions as one broker. A call about a reservation or a peer goes to the session that
// knows it, and other calls go to the first broker.
type Relay struct {
	transport.Broker // the main one
	Sessions         *Sessions
	Ledger           *exchange.Exchange
}

// sendWithin bounds how long a session may take to send a message.
const sendWithin = 10 * time.Second

// knowing returns the sessions that know a reservation and whose word counts for it, in their order.
func (r Relay) knowing(ctx context.Context, id string) (out []*Session) {
	var ours *market.Reservation
	if r.Ledger != nil {
		_ = r.Ledger.Read(ctx, func(s *market.State) { ours = s.Reservation(id) })
	}
	for _, f := range r.Sessions.Open() {
		if theirs := f.Shown(id); theirs != nil && (ours == nil || f.Decides(theirs, ours)) {
			out = append(out, f)
		}
	}
	return out
}

func (r Relay) first() transport.Broker {
	if f := r.Sessions.FirstBroker(); f != nil {
		return f.Broker
	}
	return r.Broker
}

// Clusters reads the clusters that the first broker shows.
func (r Relay) Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error) {
	return r.first().Clusters(ctx)
}

// Cluster reads a cluster at the first broker that shows it.
func (r Relay) Cluster(ctx context.Context, id string) (found api.Envelope[api.Cluster], err error) {
	for _, f := range r.Sessions.Brokers() {
		if found, err = f.Broker.Cluster(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Cluster(ctx, id)
}

// Evaluate asks the first broker.
func (r Relay) Evaluate(ctx context.Context, q api.Request) (api.Evaluation, error) {
	return r.first().Evaluate(ctx, q)
}

// Fit asks the first open session how much of a request fits where.
func (r Relay) Fit(ctx context.Context, q api.EvaluationCreate) (api.Evaluation, error) {
	return r.first().Fit(ctx, q)
}

// connectors returns the sessions with connectors that answer.
func (r Relay) connectors() (out []*Session) {
	for _, f := range r.Sessions.Open() {
		if !route.IsBroker(f.Via) && !f.connection.IsLost(0) {
			out = append(out, f)
		}
	}
	return out
}

// Reservations reads the reservations of all brokers and of the connectors that answer, each once. A broker
// that is lost hides none of another's.
func (r Relay) Reservations(ctx context.Context) (all []transport.Reservation, failed error) {
	known, answered := map[string]bool{}, false
	for _, f := range r.Sessions.Brokers() {
		found, err := f.Broker.Reservations(ctx)
		failed, answered = cmp.Or(failed, err), answered || err == nil
		for _, one := range found {
			if !known[one.ID] {
				known[one.ID] = true
				all = append(all, one)
			}
		}
	}
	switch {
	case !answered && failed == nil:
		return r.Broker.Reservations(ctx)
	case !answered:
		return nil, failed
	}
	for _, f := range r.connectors() {
		found, _ := f.Broker.Reservations(ctx)
		for _, one := range found {
			if !known[one.ID] {
				known[one.ID] = true
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// Reservation reads a reservation where it is known.
func (r Relay) Reservation(ctx context.Context, id string) (found transport.Reservation, err error) {
	if known := r.knowing(ctx, id); len(known) > 0 {
		return known[0].Broker.Reservation(ctx, id)
	}
	for _, f := range append(r.Sessions.Brokers(), r.connectors()...) { // it may be over: then none sends it by itself
		if found, err = f.Broker.Reservation(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Reservation(ctx, id)
}

// Progress reports progress at the sessions that know the reservation, in their order, until one accepts it.
// The others learn it when what they say of it is handled. Errors: that of the first.
func (r Relay) Progress(ctx context.Context, id string, state api.State) (transport.Reservation, error) {
	var failed error
	for _, f := range r.knowing(ctx, id) {
		out, err := f.Broker.Progress(ctx, id, state)
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

// Say sends a message through all sessions at once, because this cluster does not know through which of them
// the other one listens. One that accepts it is enough, and one that does not answer holds up no other.
// Errors: that of the first session.
func (r Relay) Say(ctx context.Context, cluster, document string) error {
	all := r.Sessions.Open()
	if len(all) == 1 {
		return all[0].Broker.Say(ctx, cluster, document)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	sent, wait := make(chan error, len(all)), sync.WaitGroup{}
	failed := make([]error, len(all))
	for i, f := range all {
		wait.Go(func() {
			failed[i] = f.Broker.Say(ctx, cluster, document)
			if failed[i] == nil {
				sent <- nil
			}
		})
	}
	go func() {
		defer cancel()
		wait.Wait()
		sent <- failed[0]
	}()
	return <-sent
}

// Outlets are where this cluster sells: its own connector, if it has one, and the brokers that it joined. A
// call goes to all of them at once.
type Outlets struct {
	transport.Broker // the main one
	Sessions         *Sessions
	Connector        transport.Broker // this cluster's own; nil: it has none
}

// All returns those brokers, the own connector first.
func (s Outlets) All() (out []transport.Broker) {
	if s.Connector != nil {
		out = append(out, s.Connector)
	}
	for _, f := range s.Sessions.Brokers() {
		out = append(out, f.Broker)
	}
	return out
}

func (s Outlets) each(call func(transport.Broker) error) error {
	all := s.All()
	failed := make([]error, len(all))
	var calls sync.WaitGroup
	for i, b := range all {
		calls.Go(func() { failed[i] = call(b) })
	}
	calls.Wait()
	return cmp.Or(failed...)
}

// Publish implements transport.Broker.
func (s Outlets) Publish(ctx context.Context, name, signed string) error {
	return s.each(func(b transport.Broker) error { return b.Publish(ctx, name, signed) })
}

// Withdraw implements transport.Broker.
func (s Outlets) Withdraw(ctx context.Context, name string) error {
	return s.each(func(b transport.Broker) error { return b.Withdraw(ctx, name) })
}

// Catalog returns what any of them shows, and the error of one that does not answer.
func (s Outlets) Catalog(ctx context.Context, q api.CatalogQuery) (all []api.Envelope[api.Listing], err error) {
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
