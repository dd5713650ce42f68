package gate

import (
	"context"
	"errors"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ErrNotYet says that a reservation that ends is still in use here. Call Sync again soon.
var ErrNotYet = errors.New("it is not gone yet")

// minRemembered is a lower bound: a Ledger remembers a reservation that is over for longer.
const minRemembered = 30 * time.Minute

// free gives the capacity back once nothing uses it any more. Errors: ErrNotYet before that.
func (g *Gate) free(ctx context.Context, record *market.Reservation) error {
	if g.Freed != nil {
		if freed, err := g.Freed(ctx, record); err != nil {
			return err
		} else if !freed {
			return ErrNotYet
		}
	}
	_, err := g.Market.Do(ctx, market.Free{ID: record.ID, Provider: g.Cluster})
	return err // the Ledger's change brings us here again
}

// followEnd ends what one of the two parties signed the end of, and what we accepted and the broker
// never recorded. The broker's word alone ends no bound reservation: that ends with its signed
// time.
func (g *Gate) followEnd(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	end, signed := g.verifyEnd(ctx, shown, record)
	newer := shown.Payload.Generation > record.Generation && record.Bound()
	if newer && !signed && shown.Payload.End != "" {
		// It may end a newer assignment, which the Ledger lost. Once that is restored, we come here again.
		if err := g.adopt(ctx, shown); !isFinal(err) {
			return err
		}
	}
	switch {
	case signed:
		return g.release(ctx, end)
	case shown.Payload.State.Over(), record.Changing() != nil: // a reservation that ends changes no more
		return g.undoAcceptance(ctx, record.ID)
	default:
		return nil
	}
}

// ApplySignedEnd ends a reservation if a party signed its end, whichever broker passes that on.
// Nothing else in shown counts.
func (g *Gate) ApplySignedEnd(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	end, signed := g.verifyEnd(ctx, shown, record)
	if !signed || !record.State.Counts() || record.State == api.Releasing {
		return nil
	}
	return g.release(ctx, end)
}

// release ends a reservation that a party signed the end of.
func (g *Gate) release(ctx context.Context, end api.End) error {
	_, err := g.Market.Do(ctx, market.Release{
		ID: end.Reservation, By: g.Cluster, Reason: end.Reason, Signer: end.By, At: market.At(end.At.Time),
	})
	return err
}

// verifyEnd returns the end that the broker relays, and whether one of the two parties signed it.
func (g *Gate) verifyEnd(
	ctx context.Context, shown *transport.Reservation, record *market.Reservation,
) (end api.End, signed bool) {
	if shown.Payload.End == "" {
		return end, false
	}
	parties := trust.Parties(ctx, g.Market, record)
	parties[g.Cluster] = append(parties[g.Cluster], g.Key.Public())
	if end, signed = trust.EndSigned(shown.Payload.End, record, parties); !signed {
		g.Log.Warn("the broker relays an end that neither party signed: not obeyed", "reservation", record.ID)
	}
	return end, signed
}

// announceEnd sends the consumer, through the broker, an end that began here, so that it can move
// its pods. The reservation ends even if the broker does not answer.
func (g *Gate) announceEnd(ctx context.Context, shown *transport.Reservation, record *market.Reservation) {
	if shown == nil {
		return
	}
	switch t := shown.Payload; {
	case t.State == api.Reserved, t.State == api.Active, t.State == api.Releasing && trust.NamesNothing(t.End):
	default:
		return
	}
	if err := g.publishEnd(ctx, shown, record); err != nil {
		g.Log.Info("the end of a reservation was not sent to the consumer", "reservation", record.ID, "error", err)
	}
}

// publishEnd sends the broker, signed, the end of a reservation that the broker believes to be bound.
func (g *Gate) publishEnd(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	ended := endedAssignment(shown, record)
	document, err := g.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: record.ID, Assignment: clusterkey.Digest(ended).String(),
		Generation: max(record.Generation, shown.Payload.Generation), By: g.Cluster,
		Consumer: record.Consumer, Provider: g.Cluster, Reason: record.Reason,
		At: record.Ended.Meta(),
	})
	if err != nil {
		return err
	}
	_, err = g.Broker.Release(ctx, record.ID, document)
	return transport.IgnoreGone(err)
}

// endedAssignment returns the assignment that an end of this gate names. That is the one that the
// broker shows, unless it differs from the Ledger's and could still be accepted after the Ledger
// has forgotten its own. A broker that lies could otherwise keep its end until then.
func endedAssignment(shown *transport.Reservation, record *market.Reservation) string {
	assignment := shown.Payload.Assignment
	if record.Assignment == "" || assignment == record.Assignment {
		return assignment
	}
	var claimed api.Assignment
	if trust.Claimed(assignment, &claimed) != nil || claimed.Expires.After(record.Changed.Go().Add(minRemembered)) {
		return record.Assignment
	}
	return assignment
}
