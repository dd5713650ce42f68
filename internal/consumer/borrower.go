package consumer

import (
	"context"
	"log/slog"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Borrower is a consumer's side of its reservations. What it must not forget is in the Ledger.
type Borrower struct {
	Cluster string
	Key     *clusterkey.Key
	Market  *exchange.Exchange
	Broker  transport.Broker
	Log     *slog.Logger
}

// Wish is a request of this cluster: the object that made it, what it asks, and whether its
// user has confirmed it.
type Wish struct {
	Object    market.Object
	Request   api.Request
	Confirmed bool
}

// Ask makes the reservation of a wish at the broker and takes it up. Repeating it is harmless.
// Errors: the broker's; those of Take.
func (b *Borrower) Ask(ctx context.Context, w Wish) error {
	theirs, err := b.Broker.Reserve(ctx, w.Object.UID, w.Request)
	if err != nil {
		return err
	}
	if theirs.Payload.State == api.Held {
		return b.take(ctx, &theirs, nil, w)
	}
	if theirs.Payload.Assignment == "" { // rejected, or failed, before anything was signed
		return b.note(ctx, &theirs, &market.Reservation{Object: &w.Object})
	}
	return b.recover(ctx, &theirs, w)
}

// recover takes up a reservation that this cluster signed before its Ledger forgot it.
func (b *Borrower) recover(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	var a api.Assignment
	if err := clusterkey.Verify(theirs.Payload.Assignment, api.DocumentAssignment, b.Key.Public(), &a); err != nil || a.Reservation != theirs.ID {
		return api.Errorf(api.CodeBadSignature, "the broker answers with a reservation that this cluster did not sign")
	}
	if err := b.meet(ctx, theirs); err != nil {
		return err
	}
	ours := &market.Reservation{Object: &w.Object, Generation: a.Generation, Provider: a.Provider, Assignment: theirs.Payload.Assignment}
	return b.settle(ctx, theirs, ours)
}

// Sync brings what the broker says of a reservation (theirs, nil if it says nothing) and what the
// Ledger says (ours) together. wish is nil when the object is gone.
func (b *Borrower) Sync(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, wish *Wish) error {
	if theirs == nil || ours.Fence.Lineage == theirs.Payload.Fence.Lineage && theirs.Payload.Fence.Revision < ours.Fence.Revision {
		return nil
	}
	switch t := theirs.Payload; {
	case ours.State.Over() || ours.State == api.Releasing:
		return b.finish(ctx, theirs, ours)
	case t.State == api.Held && wish != nil && (t.Assignment == "" || t.Generation > ours.Generation):
		return b.take(ctx, theirs, ours, *wish)
	default:
		return b.settle(ctx, theirs, ours)
	}
}

// settle believes what the broker says as far as a signature or our own knowledge supports it.
func (b *Borrower) settle(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State == api.Reserved || t.State == api.Active:
		if err := b.bound(ctx, t, ours); err != nil {
			b.Log.Warn("the broker says that the provider accepted, the provider's signature does not", "reservation", theirs.ID, "error", err)
			return nil
		}
		return b.note(ctx, theirs, ours)
	case t.State == api.Releasing || t.State == api.Released:
		if ours.State == api.Held && t.End == "" || b.endSigned(ctx, t.End, theirs.ID, ours) {
			if t.State == api.Released {
				return b.note(ctx, theirs, ours)
			}
			_, err := b.Market.Do(ctx, market.Release{ID: theirs.ID, By: b.Cluster, Reason: t.Reason, Document: t.End})
			return err
		}
		return nil // without a signature it ends with its time
	case t.State.Over() && (ours.State == api.Held || ours.State == ""):
		return b.note(ctx, theirs, ours) // it was never bound: the broker may refuse
	default:
		return nil
	}
}

// bound verifies the provider's acceptance of the assignment that we signed.
func (b *Borrower) bound(ctx context.Context, t api.Reservation, ours *market.Reservation) error {
	key, err := trust.Key(ctx, b.Market, ours.Provider)
	if err != nil {
		return err
	}
	var a api.Acceptance
	if err := clusterkey.Verify(t.Acceptance, api.DocumentAcceptance, key, &a); err != nil {
		return err
	}
	if a.Assignment != clusterkey.Digest(ours.Assignment).String() || a.Generation != ours.Generation || t.Provider != ours.Provider {
		return api.Errorf(api.CodeBadSignature, "the acceptance is of another assignment")
	}
	return nil
}

func (b *Borrower) endSigned(ctx context.Context, document, id string, ours *market.Reservation) bool {
	key, err := trust.Key(ctx, b.Market, ours.Provider)
	return err == nil && document != "" && trust.EndSigned(document, id, ours.Generation, key, b.Key.Public())
}

// End ends a reservation of ours because its object is gone. The broker is told by finish, again and
// again until it knows.
func (b *Borrower) End(ctx context.Context, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing {
		return nil
	}
	document, err := b.signEnd(ours, api.ReasonReleased)
	if err != nil {
		return err
	}
	_, err = b.Market.Do(ctx, market.Release{ID: ours.ID, By: b.Cluster, Generation: ours.Generation, Reason: api.ReasonReleased, Document: document})
	return err
}

func (b *Borrower) signEnd(ours *market.Reservation, reason api.Reason) (string, error) {
	return b.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Generation: ours.Generation, By: b.Cluster,
		Consumer: b.Cluster, Provider: ours.Provider, Reason: reason,
	})
}

// finish tells the broker of an end of ours until it knows, and notes when the provider is free of it.
func (b *Borrower) finish(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State.Over() && ours.State.Over():
		return nil
	case t.State.Over():
		return b.note(ctx, theirs, ours)
	case t.State == api.Releasing && t.End != "":
		return nil
	}
	document := ours.End
	if document == "" || t.Generation > ours.Generation { // it ended by its time, or moved on meanwhile
		newest := *ours
		newest.Generation, newest.Provider = max(t.Generation, ours.Generation), t.Provider
		var err error
		if document, err = b.signEnd(&newest, ours.Reason); err != nil {
			return err
		}
	}
	_, err := b.Broker.Release(ctx, theirs.ID, document)
	return err
}

// note remembers what became of a reservation.
func (b *Borrower) note(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	next := *ours
	next.ID, next.State, next.Reason, next.Message = theirs.ID, t.State, t.Reason, t.Message
	next.Consumer, next.Fence = b.Cluster, t.Fence
	next.Provider, next.Pool = t.Provider, t.Pool
	next.Created, next.Until = market.At(t.Created.Time), market.At(t.Until.Time)
	if t.State == api.Rejected && t.Decision != nil {
		next.Message = explain(t.Decision)
	}
	if t.Acceptance != "" {
		next.Acceptance = t.Acceptance
	}
	size, err := market.Need("resources", t.Resources)
	if err != nil {
		return err
	}
	next.Size = size
	if ours.State == next.State && ours.Generation == next.Generation && ours.Assignment == next.Assignment && ours.Acceptance == next.Acceptance {
		return nil // nothing to remember: idle means idle
	}
	_, err = b.Market.Do(ctx, market.Note{Reservation: &next})
	return err
}
