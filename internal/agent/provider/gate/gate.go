package gate

import (
	"context"
	"log/slog"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Options say for which cluster a gate decides, and by what.
type Options struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Former holds the fingerprints of the keys that Key succeeded. An assignment that names one of them is
	// still for this cluster.
	Former []string
	// Market holds the gate's own books, in the Ledger. Its clock is the gate's.
	Market *exchange.Exchange
	// Engine evaluates the expressions of the SharingPolicy and of offers.
	Engine *match.Engine
	// Broker is the main broker.
	Broker transport.Broker
	// Trust decides which keys of consumers count.
	Trust trust.Demand
	// Freed removes what an ended reservation still has here, and reports whether nothing is left.
	// Nil, without Liqo: there never is anything.
	Freed func(ctx context.Context, record *market.Reservation) (bool, error)
	// Fresh measures the cluster for a refusal at the broker of a route. It may return nil. Nil: a refusal has
	// no measurement.
	Fresh func(ctx context.Context, via string) *api.Measurement
	Log   *slog.Logger
}

// Gate accepts or refuses reservations of this cluster's capacity. Several goroutines may use it, each for
// reservations of its own.
type Gate struct {
	Options
	via string // the Via of Broker: see package session
}

// New returns the gate for reservations at the main broker.
func New(o Options) *Gate { return &Gate{Options: o} }

// At returns this gate for the reservations at another broker or connector.
func (g *Gate) At(via string, b transport.Broker) *Gate {
	copied := *g
	copied.via, copied.Broker = via, b
	return &copied
}

// Sync acts on the difference between what the broker shows of a reservation (shown, nil if
// nothing) and what the Ledger says (record, nil if nothing). Call it after each change of either,
// and again after an error. Repeating it is harmless. Errors: ErrNotYet, to be called again soon;
// BadSignature if what the broker shows is too long; those of the broker and of the Ledger.
func (g *Gate) Sync(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	if record != nil && record.State == api.Releasing {
		g.announceEnd(ctx, shown, record)
		return g.free(ctx, record)
	}
	if shown == nil || record != nil && shown.Payload.Fence.Before(record.Fence) {
		return nil
	}
	t := shown.Payload
	if err := trust.CheckShown(t); err != nil {
		return err
	}
	if record != nil {
		g.Trust.Greet(ctx, g.Market, t.ConsumerCard, record.Consumer)
	}
	switch counts := record != nil && record.State.Counts(); {
	case t.State == api.Held && t.Assignment == "":
		return nil // the consumer has signed nothing yet
	case t.State == api.Held:
		return g.answerHold(ctx, shown, record)
	case t.State == api.Reserved || t.State == api.Active:
		if counts {
			return g.followBound(ctx, shown, record)
		}
		if record == nil {
			return g.restore(ctx, shown)
		}
		return g.publishEnd(ctx, shown, record)
	case counts:
		return g.followEnd(ctx, shown, record)
	case t.State == api.Releasing:
		_, err := g.Broker.Progress(ctx, shown.ID, api.Released)
		return transport.IgnoreGone(err)
	default:
		return nil
	}
}

// CheckAccept checks the `accept` expression of an offer. Errors: Invalid.
func (g *Gate) CheckAccept(expression string) error { return g.Engine.CheckAccept(expression) }

// RefuseID refuses a reservation that a broker shows under the ID of a reservation at another broker.
func (g *Gate) RefuseID(ctx context.Context, shown *transport.Reservation) error {
	cause := api.Errorf(api.CodeConflict, "the ID %s belongs to a reservation at another broker", shown.ID)
	return g.refuse(ctx, shown, cause)
}

// readOwn returns what the Ledger says of a reservation of this cluster's capacity. Errors: NotFound.
func (g *Gate) readOwn(ctx context.Context, id string) (record *market.Reservation, err error) {
	record, err = g.Market.Reservation(ctx, id)
	if err == nil && (record == nil || record.Provider != g.Cluster) {
		err = api.Errorf(api.CodeNotFound, "this cluster lends no reservation %.80q", id).
			Fix("see what waits for approval: bourse approvals; what was sold: bourse contracts --sold")
	}
	return record, err
}
