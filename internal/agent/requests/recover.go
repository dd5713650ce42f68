package requests

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// recover takes up a reservation that this cluster signed before its Ledger forgot it.
func (b *Borrower) recover(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	ours, err := b.signed(ctx, theirs, nil)
	if err != nil {
		return err
	}
	ours.Object, ours.Group = &w.Object, theirs.Payload.Group
	// When it began the broker alone says: the wish is taken for what was agreed, until it is edited.
	ours.Created = market.At(ours.Until.Go().Add(-durationOf(w.Request)))
	if _, err := b.meet(ctx, theirs); err != nil {
		return err
	}
	if ours.Sale != nil {
		if ours.Offer, err = b.offer(ctx, theirs, ours.Sale); err != nil {
			return err
		}
	}
	t := theirs.Payload
	switch err := b.bound(ctx, t, ours); {
	case err == nil: // it is, or was, bound: from here on only signatures and time count
		ours.State, ours.Acceptance, ours.HeldUntil, ours.ApproveBy, ours.Via = api.Reserved, t.Acceptance, 0, 0, b.via
		if _, err := b.Market.Do(ctx, market.Note{Reservation: ours}); err != nil {
			return err
		}
		return b.settle(ctx, theirs, ours)
	case t.State == api.Reserved || t.State == api.Active:
		return err
	default:
		return b.note(ctx, theirs, ours)
	}
}

// newer is what this cluster signed last: the change of what is bound, or what it signed in a life that the Ledger has
// forgotten. Until it is seen that the provider accepted it, it is not believed.
func (b *Borrower) newer(ctx context.Context, theirs *transport.Reservation, ours, again *market.Reservation) *market.Reservation {
	if issued(again).Before(issued(ours)) { // of an earlier reservation that had the same ID
		return ours
	}
	if ours.Acceptance != "" && again.Generation > ours.Generation {
		next, change := *ours, again.AsIs()
		change.Generation, change.Assignment, change.From = again.Generation, again.Assignment, again.From
		next.Become(change, b.Market.Now())
		return &next
	}
	if ours.Acceptance != "" || again.Generation < ours.Generation {
		return ours
	}
	if _, err := b.meet(ctx, theirs); err != nil {
		return ours
	}
	again.Object, again.Created, again.Offer, again.Group = ours.Object, ours.Created, ours.Offer, ours.Group
	return again
}

// issued is when an assignment of ours was signed; the zero time where it is of before 2026-11-23, or where there is none.
func issued(r *market.Reservation) time.Time {
	var a api.Assignment
	if r.Assignment == "" || trust.Claimed(r.Assignment, &a) != nil {
		return time.Time{}
	}
	return a.Issued.Time
}

// remind tells a broker that was restored from a backup what both sides have signed since. What is bound
// does not move: whatever else it holds instead is not signed.
func (b *Borrower) remind(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	if t.State == api.Held && (t.Assignment != "" || t.Generation != ours.Generation) || t.Change.Pending() || ours.Changing() != nil {
		return nil
	}
	if t.Change != nil && t.Change.Generation >= ours.Generation { // it has given up waiting for it: once more, as a newer one
		return b.sign(ctx, ours, ours.AsIs(), max(t.Change.Generation, ours.Latest())+1)
	}
	_, err := b.Broker.Confirm(ctx, theirs.ID, ours.Assignment)
	return unlessMovedOn(err)
}
