package localapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Reservations returns what the brokers and the connectors show. A reservation that was made at a connector is
// in this cluster's Ledger alone once the connector is closed: then it is shown from there.
func (b Brokers) Reservations(ctx context.Context) ([]transport.Reservation, error) {
	all, err := b.Relay.Reservations(ctx)
	if err != nil {
		return nil, err
	}
	shown := map[string]bool{}
	for _, one := range all {
		shown[one.ID] = true
	}
	var direct []*market.Reservation
	err = readLedger(ctx, b.Ledger, func(s *market.State) {
		direct = slices.DeleteFunc(s.Of(s.Self, 0), func(r *market.Reservation) bool { return shown[r.ID] || !isDirect(r) })
	})
	for _, r := range direct {
		all = append(all, fromLedger(r))
	}
	return all, err
}

// Reservation returns a reservation where it is known, at last from the Ledger. Errors: NotFound; Unavailable.
func (b Brokers) Reservation(ctx context.Context, id string) (transport.Reservation, error) {
	found, err := b.Relay.Reservation(ctx, id)
	if err == nil {
		return found, nil
	}
	var ours *market.Reservation
	if readLedger(ctx, b.Ledger, func(s *market.State) { ours = s.Reservation(id) }) == nil && ours != nil && isDirect(ours) {
		return fromLedger(ours), nil
	}
	return found, err
}

// ledgerWithin is how long users wait for the Ledger of their cluster.
const ledgerWithin = 5 * time.Second

// readLedger reads the Ledger, which answers nobody while the API server that keeps it stands still. Errors:
// Unavailable.
func readLedger(ctx context.Context, ledger *exchange.Exchange, look func(*market.State)) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerWithin)
	defer cancel()
	err := ledger.Read(ctx, look)
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(api.CodeUnavailable, "the Ledger of this cluster does not answer: its API server stands still, "+
			"or takes no writes").Fix("repeat the command; see: bourse doctor")
	}
	return err
}

// isDirect reports whether a reservation was made at a seller's connector.
func isDirect(r *market.Reservation) bool { return !session.IsBroker(r.Via) }

// fromLedger returns a reservation as the Ledger has it.
func fromLedger(r *market.Reservation) transport.Reservation {
	return transport.Reservation{ID: r.ID, Revision: r.Revision, Payload: server.PayloadOf(r)}
}
