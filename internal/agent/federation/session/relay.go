package session

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
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

// knowing returns the sessions that know a reservation and whose word counts for it, in their order. record
// is what the Ledger says of it.
func (r Relay) knowing(id string, record *market.Reservation) (out []*Session) {
	for _, f := range r.Sessions.Open() {
		if shown := f.Shown(id); shown != nil && (record == nil || f.Decides(shown, record)) {
			out = append(out, f)
		}
	}
	return out
}

// read returns what the Ledger says of a reservation, nil if nothing.
func (r Relay) read(ctx context.Context, id string) (record *market.Reservation) {
	if r.Ledger != nil {
		record, _ = r.Ledger.Reservation(ctx, id)
	}
	return record
}

// shared returns the reservations between this cluster and another one.
func (r Relay) shared(ctx context.Context, cluster string) (out []*market.Reservation) {
	if r.Ledger != nil {
		out, _ = r.Ledger.Reservations(ctx)
	}
	other := func(record *market.Reservation) bool { return record.Consumer != cluster && record.Provider != cluster }
	return slices.DeleteFunc(out, other)
}

// selectSessions returns the sessions that know a reservation of this cluster with another one, or all if the
// Ledger has none. The others would relay nothing between the two, and learn that they have one.
func (r Relay) selectSessions(ctx context.Context, cluster string) []*Session {
	all, shared := r.Sessions.Open(), r.shared(ctx, cluster)
	if len(shared) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(f *Session) bool {
		return f.Via != cluster && !slices.ContainsFunc(shared, f.Knows)
	})
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

// ClustersAfter reads a page of the clusters that the first broker shows.
func (r Relay) ClustersAfter(ctx context.Context, after string,
	limit int) (page []api.Envelope[api.Cluster], next string, err error) {
	return r.first().ClustersAfter(ctx, after, limit)
}

// Cluster reads a cluster at the first broker that shows it. It asks about a customer where that reserved.
func (r Relay) Cluster(ctx context.Context, id string) (found api.Envelope[api.Cluster], err error) {
	shared := r.shared(ctx, id)
	customer := len(shared) > 0 &&
		!slices.ContainsFunc(shared, func(record *market.Reservation) bool { return record.Provider == id })
	for _, f := range r.Sessions.Brokers() {
		if customer && !slices.ContainsFunc(shared, f.Knows) {
			continue
		}
		if found, err = f.Broker.Cluster(ctx, id); err == nil {
			return found, nil
		}
	}
	if customer {
		return found, cmp.Or(err, error(api.Errorf(api.CodeNotFound, "no broker shows cluster %s", id).
			Fix("connect to the broker where it reserved: bourse brokers")))
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

// FitAt asks the broker of a name how much of a request fits where, the first if it is empty. Errors:
// Invalid if there is no such broker; the broker's.
func (r Relay) FitAt(ctx context.Context, broker string, q api.EvaluationCreate) (api.Evaluation, error) {
	if broker == "" {
		return r.Fit(ctx, q)
	}
	to := r.Sessions.BrokerNamed(broker)
	if to == nil {
		return api.Evaluation{}, api.Invalid("template.broker", "there is no broker %.63q here", broker).
			Fix("name one of: bourse brokers")
	}
	return to.Broker.Fit(ctx, q)
}

// connectors returns the sessions with connectors that answer.
func (r Relay) connectors() (out []*Session) {
	for _, f := range r.Sessions.Open() {
		if !IsBroker(f.Via) && !f.connection.IsLost(0) {
			out = append(out, f)
		}
	}
	return out
}

// Reservations reads the reservations of all brokers and of the connectors that answer, each once. A broker
// that is lost hides none of another's.
func (r Relay) Reservations(ctx context.Context) (all []transport.Reservation, failed error) {
	known, answered := map[string]bool{}, false
	read := func(f *Session) error {
		found, err := f.Broker.Reservations(ctx)
		for _, shown := range found {
			if !known[shown.ID] {
				known[shown.ID] = true
				all = append(all, shown)
			}
		}
		return err
	}
	for _, f := range r.Sessions.Brokers() {
		err := read(f)
		failed, answered = cmp.Or(failed, err), answered || err == nil
	}
	switch {
	case answered:
	case failed == nil: // all brokers are disabled: the main one says so
		return r.Broker.Reservations(ctx)
	default:
		return nil, failed
	}
	for _, f := range r.connectors() {
		_ = read(f)
	}
	return all, nil
}

// Reservation reads a reservation where it is known.
func (r Relay) Reservation(ctx context.Context, id string) (found transport.Reservation, err error) {
	record := r.read(ctx, id)
	if known := r.knowing(id, record); len(known) > 0 {
		return callFirst(known, func(b transport.Broker) (transport.Reservation, error) { return b.Reservation(ctx, id) })
	}
	for _, f := range append(r.Sessions.Brokers(), r.connectors()...) { // it may be over: then none sends it by itself
		if record != nil && IsBroker(f.Via) && f.Via != record.Via {
			continue
		}
		if found, err = f.Broker.Reservation(ctx, id); err == nil {
			return found, nil
		}
	}
	if record != nil && record.Via != "" {
		return found, cmp.Or(err, notReached(record))
	}
	if record != nil { // made at the main broker: no other learns of it, also if the main one is disabled
		return r.Broker.Reservation(ctx, id)
	}
	return r.first().Reservation(ctx, id)
}

// notReached is the error of a call about a reservation that no open session knows.
func notReached(record *market.Reservation) error {
	return api.Errorf(api.CodeUnavailable, "reservation %s was made at %s, which this cluster does not reach", record.ID,
		BrokerName(record.Via)).FixBy("see", "bourse", "brokers")
}

// Progress reports progress at the sessions that know the reservation, in their order, until one accepts it.
// The others learn it when what they say of it is handled. Errors: that of the first.
func (r Relay) Progress(ctx context.Context, id string, state api.State) (transport.Reservation, error) {
	record := r.read(ctx, id)
	known := r.knowing(id, record)
	switch {
	case len(known) > 0:
		return callFirst(known, func(b transport.Broker) (transport.Reservation, error) { return b.Progress(ctx, id, state) })
	case record != nil && record.Via != "":
		return transport.Reservation{}, notReached(record)
	}
	return r.Broker.Progress(ctx, id, state)
}

// callFirst makes a call at the sessions in their order, until one answers: a seller's connector takes the place
// of a broker that is lost. Errors: that of the first.
func callFirst(known []*Session,
	call func(transport.Broker) (transport.Reservation, error)) (transport.Reservation, error) {
	var failed error
	for _, f := range known {
		out, err := call(f.Broker)
		if err == nil {
			return out, nil
		}
		failed = cmp.Or(failed, err)
	}
	return transport.Reservation{}, failed
}

// SendHandshake sends a message at once through all sessions that have to do with the other cluster: this
// cluster does not know through which of them the other one listens. One that accepts it is enough. One that
// does not answer holds up no other. Errors: that of the first session.
func (r Relay) SendHandshake(ctx context.Context, cluster, document string) error {
	all := r.selectSessions(ctx, cluster)
	switch len(all) {
	case 0:
		return api.Errorf(api.CodeUnavailable, "this cluster is not connected to a broker that has its reservation with %s",
			cluster).
			FixBy("see", "bourse", "brokers")
	case 1:
		return all[0].Broker.SendHandshake(ctx, cluster, document)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	sent, wait := make(chan error, len(all)), sync.WaitGroup{}
	failed := make([]error, len(all))
	for i, f := range all {
		wait.Go(func() {
			failed[i] = f.Broker.SendHandshake(ctx, cluster, document)
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
