// Package transport is how an agent reaches a broker.
//
// [Broker] holds all calls of an agent to a broker. [HTTP], the default, uses the REST API. Every
// implementation passes the suite in transporttest.
package transport

import (
	"cmp"
	"context"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Reservation is a reservation as the broker shows it to this cluster.
type Reservation = api.Envelope[api.Reservation]

// Outlet is where a cluster lends: a broker, or its own connector.
type Outlet struct {
	Broker
	// Via names it, as in reservations: see package session.
	Via string
	// Knows reports whether it knows a reservation of this cluster's capacity.
	Knows func(*market.Reservation) bool
	// Answers notes whether it answers. Nil: calls wait for as long as they take.
	Answers *Answers
}

// CallAll makes a call at all outlets at once. It returns the error of the first outlet in their order that
// failed: another one each time would change the statuses that show it.
func CallAll(all []Outlet, call func(Outlet) error) error {
	failed := make([]error, len(all))
	var calls sync.WaitGroup
	for i, outlet := range all {
		calls.Go(func() { failed[i] = call(outlet) })
	}
	calls.Wait()
	return cmp.Or(failed...)
}

// IsGone reports whether an error of a broker says that a reservation no longer is what the call
// assumed.
func IsGone(err error) bool {
	code := api.CodeOf(err)
	return err != nil && (code == api.CodeConflict || code == api.CodeNotFound)
}

// IgnoreGone returns err, but nil where IsGone: the next event of the broker says what the
// reservation is.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

// Broker is one agent's access to a broker. Errors are [*api.Error]. After Unavailable and TooManyRequests,
// repeat the call later. Repeating any call is harmless.
type Broker interface {
	// PutCard sends this cluster's newest signed card.
	PutCard(ctx context.Context, signed string) error
	// Advertise sends this cluster's measurement. Call it also without a change, as a heartbeat.
	Advertise(ctx context.Context, m api.Measurement) error

	// Clusters and Cluster read the other clusters that are visible to this one. ClustersAfter reads a page of them: at
	// most limit of those after an ID, and the after of the next page, empty at the end.
	Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error)
	ClustersAfter(ctx context.Context, after string, limit int) (page []api.Envelope[api.Cluster], next string, err error)
	Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error)
	// Catalog searches the offers that are visible to this cluster; Offer reads one.
	Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error)
	Offer(ctx context.Context, seller, name string) (api.Envelope[api.Listing], error)
	// Publish puts a signed offer of this cluster on sale; Withdraw takes it off sale.
	Publish(ctx context.Context, name, signed string) error
	Withdraw(ctx context.Context, name string) error
	// Evaluate decides without reserving.
	Evaluate(ctx context.Context, r api.Request) (api.Evaluation, error)
	// Fit says how much of a request fits where: Fits of the evaluation.
	Fit(ctx context.Context, r api.EvaluationCreate) (api.Evaluation, error)

	// Reserve holds capacity; the same key returns the same reservation.
	Reserve(ctx context.Context, key string, r api.Request) (Reservation, error)
	// Reservation and Reservations read this cluster's reservations, as consumer and as provider.
	Reservation(ctx context.Context, id string) (Reservation, error)
	Reservations(ctx context.Context) ([]Reservation, error)
	// Confirm, Accept and Release send signed documents; Refuse and Progress report.
	Confirm(ctx context.Context, id, assignment string) (Reservation, error)
	Accept(ctx context.Context, id, acceptance string) (Reservation, error)
	Refuse(ctx context.Context, id string, r api.Refusal) (Reservation, error)
	Release(ctx context.Context, id, end string) (Reservation, error)
	Progress(ctx context.Context, id string, state api.State) (Reservation, error)
	// Adopt shows what both parties signed of a reservation that the broker does not know.
	Adopt(ctx context.Context, id string, a api.Agreement) (Reservation, error)

	// SendHandshake sends a signed handshake message to another party of this cluster's reservations. The broker may
	// lose it: repeat it until there is an answer.
	SendHandshake(ctx context.Context, cluster, document string) error

	// Watch reports this cluster's reservations until ctx or the connection ends: first a snapshot (the
	// changes since token, or everything), then changes.
	Watch(ctx context.Context, token string, handle func(api.WatchEvent) error) error
	// WatchCatalog also reports the catalog: all of it ("all"), or the changes since the bookmark with the
	// token catalog.
	WatchCatalog(ctx context.Context, token, catalog string, handle func(api.WatchEvent) error) error
}
