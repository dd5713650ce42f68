package answers

import (
	"context"
	"errors"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Reservations returns what the brokers and the connectors show. A reservation that was made at a connector is
// in this cluster's Ledger alone once the connector is closed: then it is shown from there. Each has the name of the
// ResourceRequest that made it.
func (b Brokers) Reservations(ctx context.Context) ([]transport.Reservation, error) {
	all, err := b.Relay.Reservations(ctx)
	if err != nil {
		return nil, err
	}
	shown := map[string]int{}
	for i, item := range all {
		shown[item.ID] = i
		all[i].Payload.Object = "" // no broker knows it
	}
	kept, err := readLedger(ctx, b.Ledger.Reservations)
	for _, r := range kept {
		i, found := shown[r.ID]
		if !found {
			if !isDirect(r) {
				continue
			}
			i, all = len(all), append(all, fromLedger(r))
		}
		if r.Object != nil {
			all[i].Payload.Object = r.Object.Namespace + "/" + r.Object.Name
		}
	}
	return all, err
}

// Reservation returns a reservation where it is known, at last from the Ledger, with the name of the ResourceRequest
// that made it. Errors: NotFound; Unavailable.
func (b Brokers) Reservation(ctx context.Context, id string) (transport.Reservation, error) {
	found, err := b.Relay.Reservation(ctx, id)
	record, unread := readReservation(ctx, b.Ledger, id)
	switch {
	case err != nil && record != nil && isDirect(record):
		found, err = fromLedger(record), nil
	case err == nil:
		err = unread
	}
	if found.Payload.Object = ""; record != nil && record.Object != nil { // no broker knows it
		found.Payload.Object = record.Object.Namespace + "/" + record.Object.Name
	}
	return found, err
}

// ledgerWithin is how long users wait for the Ledger of their cluster.
const ledgerWithin = 5 * time.Second

// readLedger reads the Ledger, which answers nobody while the API server that keeps it stands still. Errors:
// Unavailable.
func readLedger[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerWithin)
	defer cancel()
	found, err := read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = api.Errorf(api.CodeUnavailable, "the Ledger of this cluster does not answer: its API server stands still, "+
			"or takes no writes").FixBy("repeat the command; see", "bourse", "doctor")
	}
	return found, err
}

// readReservation returns a reservation of the Ledger, nil if it is not known. Errors: Unavailable.
func readReservation(ctx context.Context, ledger *exchange.Exchange, id string) (*market.Reservation, error) {
	return readLedger(ctx, func(ctx context.Context) (*market.Reservation, error) { return ledger.Reservation(ctx, id) })
}

// isDirect reports whether a reservation was made at a seller's connector.
func isDirect(r *market.Reservation) bool { return !session.IsBroker(r.Via) }

// fromLedger returns a reservation as the Ledger has it.
func fromLedger(r *market.Reservation) transport.Reservation {
	return transport.Reservation{ID: r.ID, Revision: r.Revision, Payload: server.PayloadOf(r)}
}

// EndUnknown ends a reservation that this cluster signed and has no request for. Errors: NotFound.
func (c *Cluster) EndUnknown(ctx context.Context, id string) error {
	return c.o.Requests.EndUnknown(ctx, id)
}
