package requests

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// restore puts a reservation back that this cluster signed and its Ledger lost.
func (b *Borrower) restore(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	ours, err := b.readSigned(ctx, theirs, nil)
	if err != nil {
		return err
	}
	ours.Object, ours.Group = &w.Object, theirs.Payload.Group
	// Only the broker says when it began. So the wish counts as what was agreed, until a user edits it.
	ours.Created = market.At(ours.Until.Go().Add(-api.DurationOf(w.Request.Duration)))
	if _, err := b.meetProvider(ctx, theirs); err != nil {
		return err
	}
	if ours.Sale != nil {
		if ours.Offer, err = b.verifyOffer(ctx, theirs, ours.Sale); err != nil {
			return err
		}
	}
	t := theirs.Payload
	switch err := b.verifyAcceptance(ctx, t, ours); {
	case err == nil: // it is, or was, bound: from now on only signatures and time count
		ours.State, ours.Acceptance, ours.Via = api.Reserved, t.Acceptance, b.via
		ours.HeldUntil, ours.ApproveBy = 0, 0
		if _, err := b.Market.Do(ctx, market.Note{Reservation: ours}); err != nil {
			return err
		}
		return b.followBroker(ctx, theirs, ours)
	case t.State == api.Reserved || t.State == api.Active:
		return err
	default:
		return b.recordState(ctx, theirs, ours)
	}
}

// pickNewer returns the newer of two records: ours, or again, which this cluster signed and its
// Ledger may have lost. The caller must not believe it before it has verified the provider's
// acceptance.
func (b *Borrower) pickNewer(
	ctx context.Context, theirs *transport.Reservation, ours, again *market.Reservation,
) *market.Reservation {
	if issuedAt(again).Before(issuedAt(ours)) { // of an earlier reservation with the same ID
		return ours
	}
	if ours.Acceptance != "" && again.Generation > ours.Generation {
		next, change := *ours, again.Unchanged()
		change.Generation, change.Assignment, change.From = again.Generation, again.Assignment, again.From
		next.ApplyChange(change, b.Market.Now())
		return &next
	}
	if ours.Acceptance != "" || again.Generation < ours.Generation {
		return ours
	}
	if _, err := b.meetProvider(ctx, theirs); err != nil {
		return ours
	}
	again.Object, again.Created, again.Offer, again.Group = ours.Object, ours.Created, ours.Offer, ours.Group
	return again
}

// issuedAt returns when the assignment of a reservation was signed. It is the zero time if there is
// none, or if it is from before 2026-11-23, when assignments did not say.
func issuedAt(r *market.Reservation) time.Time {
	var a api.Assignment
	if r.Assignment == "" || trust.Claimed(r.Assignment, &a) != nil {
		return time.Time{}
	}
	return a.Issued.Time
}

// remindBroker sends a broker that was restored from a backup what both sides have signed since. A
// bound reservation does not move: this cluster signs nothing else that the broker holds instead.
func (b *Borrower) remindBroker(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	heldElse := t.State == api.Held && (t.Assignment != "" || t.Generation != ours.Generation)
	if heldElse || t.Change.Pending() || ours.Changing() != nil {
		return nil
	}
	// the broker no longer waits for it: sign it as a newer one
	if t.Change != nil && t.Change.Generation >= ours.Generation {
		return b.signAndRecordChange(ctx, ours, ours.Unchanged(), max(t.Change.Generation, ours.Latest())+1)
	}
	_, err := b.Broker.Confirm(ctx, theirs.ID, ours.Assignment)
	return transport.IgnoreGone(err)
}
