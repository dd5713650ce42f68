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

// ending ends what one of the two parties signed the end of, and what we only accepted and the broker never took.
// The broker's word alone ends nothing that is bound: that ends with its signed time.
func (g *Gate) ending(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	reason, signed := g.endSigned(ctx, theirs, ours)
	if newer := theirs.Payload.Generation > ours.Generation && ours.Bound(); newer && !signed && theirs.Payload.End != "" {
		if err := g.adopt(ctx, theirs); !hopeless(err) { // it ends a newer assignment, which the Ledger lost: taken back, that brings us here again
			return err
		}
	}
	switch {
	case signed:
		_, err := g.Market.Do(ctx, market.Release{ID: ours.ID, By: g.Cluster, Reason: reason})
		return err
	case theirs.Payload.State.Over(), ours.Changing() != nil: // what ends changes no more
		return g.drop(ctx, ours.ID)
	default:
		return nil
	}
}

// HearEnd ends a reservation where a party signed its end, whoever passes that on. Nothing else that theirs says counts.
func (g *Gate) HearEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	reason, signed := g.endSigned(ctx, theirs, ours)
	if !signed || !ours.State.Counts() || ours.State == api.Releasing {
		return nil
	}
	_, err := g.Market.Do(ctx, market.Release{ID: ours.ID, By: g.Cluster, Reason: reason})
	return err
}

// endSigned says whether one of the two parties signed the end that the broker relays.
func (g *Gate) endSigned(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) (reason api.Reason, signed bool) {
	if theirs.Payload.End == "" {
		return "", false
	}
	may := append(trust.Parties(ctx, g.Market, ours), g.Key.Public())
	if reason, signed = trust.EndSigned(theirs.Payload.End, ours, may...); !signed {
		g.Log.Warn("the broker relays an end that neither party signed: not obeyed", "reservation", ours.ID)
	}
	return reason, signed
}

// sayEnd tells the broker, signed, that a reservation it believes in has ended here.
func (g *Gate) sayEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	document, err := g.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Assignment: clusterkey.Digest(g.ended(theirs, ours)).String(),
		Generation: max(ours.Generation, theirs.Payload.Generation), By: g.Cluster,
		Consumer: ours.Consumer, Provider: g.Cluster, Reason: ours.Reason,
	})
	if err != nil {
		return err
	}
	_, err = g.Broker.Release(ctx, ours.ID, document)
	return unlessGone(err)
}

// ended is the assignment that an end of this gate names: the one that the broker shows, unless that is another one than the Ledger's, and
// could be accepted when the Ledger has forgotten its own. A broker that lies could otherwise keep the end of it for that day.
func (g *Gate) ended(theirs *transport.Reservation, ours *market.Reservation) string {
	shown := theirs.Payload.Assignment
	if ours.Assignment == "" || shown == ours.Assignment {
		return shown
	}
	var claimed api.Assignment
	if trust.Claimed(shown, &claimed) != nil || claimed.Expires.After(ours.Changed.Go().Add(remembered)) {
		return ours.Assignment
	}
	return shown
}

// remembered is less than how long a Ledger remembers what is over.
const remembered = 30 * time.Minute

// ErrNotYet says that something has not gone yet: look again soon.
var ErrNotYet = errors.New("it is not gone yet")

// free gives the capacity back, once nothing uses it any more.
func (g *Gate) free(ctx context.Context, ours *market.Reservation) error {
	if g.Freed != nil {
		if freed, err := g.Freed(ctx, ours); err != nil {
			return err
		} else if !freed {
			return ErrNotYet
		}
	}
	_, err := g.Market.Do(ctx, market.Free{ID: ours.ID, Provider: g.Cluster})
	return err // its change brings us here again
}

// announce tells the consumer, through the broker, of an end that began here, so that it can move its pods meanwhile. It
// ends all the same where nobody can be told.
func (g *Gate) announce(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) {
	if theirs == nil {
		return
	}
	switch t := theirs.Payload; {
	case t.State == api.Reserved, t.State == api.Active, t.State == api.Releasing && trust.NamesNothing(t.End):
	default:
		return
	}
	if err := g.sayEnd(ctx, theirs, ours); err != nil {
		g.Log.Info("the consumer cannot be told that a reservation ends", "reservation", ours.ID, "error", err)
	}
}
