// Package transport is how an agent reaches a broker.
//
// Everything that the two say to each other is in [Broker]. [HTTP], the default, speaks
// the REST API; every implementation passes the suite in transporttest.
package transport

import (
	"context"

	"github.com/bourse-dev/bourse/api"
)

// Reservation is a reservation as the broker shows it to this cluster.
type Reservation = api.Envelope[api.Reservation]

// Broker is one agent's access to a broker. Errors are [*api.Error]; Unavailable and
// TooManyRequests mean: the same again, later. Repeating any call is harmless.
type Broker interface {
	// PutCard shows this cluster's newest signed card.
	PutCard(ctx context.Context, signed string) error
	// Advertise says what this cluster has now; called also without a change, as proof of life.
	Advertise(ctx context.Context, m api.Measurement) error

	// Clusters and Cluster are the others, as far as they show themselves.
	Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error)
	Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error)
	// Catalog searches the offers that are shown to this cluster, Offer reads one.
	Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error)
	Offer(ctx context.Context, seller, name string) (api.Envelope[api.Listing], error)
	// Publish puts a signed offer of this cluster's on sale, Withdraw takes one off.
	Publish(ctx context.Context, name, signed string) error
	Withdraw(ctx context.Context, name string) error
	// Evaluate decides without reserving.
	Evaluate(ctx context.Context, r api.Request) (api.Evaluation, error)

	// Reserve holds capacity; the same key gives the same reservation.
	Reserve(ctx context.Context, key string, r api.Request) (Reservation, error)
	// Reservation and Reservations read those of which this cluster is a party.
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

	// Say passes a signed handshake message on to another cluster, of which this one is a party of a
	// reservation. The broker may forget it: say it again until it is answered.
	Say(ctx context.Context, cluster, document string) error

	// Watch tells of the reservations of this cluster until ctx or the connection ends:
	// first a snapshot (of what changed since token, or everything), then changes.
	Watch(ctx context.Context, token string, handle func(api.WatchEvent) error) error
	// WatchCatalog tells of the catalog, too: all of it ("all"), or what changed after the bookmark with the token catalog.
	WatchCatalog(ctx context.Context, token, catalog string, handle func(api.WatchEvent) error) error
}
