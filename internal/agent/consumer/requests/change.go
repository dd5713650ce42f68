package requests

import (
	"cmp"
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Change asks for what a wish says now, if the reservation is bound to another size or end. It
// signs a newer assignment; the answer comes later. again is when to call it again; 0: after the
// next change of the Ledger. Errors: Invalid if the wish is not valid; the broker's, if another try
// may help.
func (b *Borrower) Change(ctx context.Context, ours *market.Reservation, w Wish) (again time.Duration, err error) {
	want, err := wantedChange(w, ours)
	if err != nil {
		return 0, err
	}
	now, c := b.Market.Now(), ours.Change
	switch pending := ours.Changing(); {
	case pending != nil && now < pending.HeldUntil:
		return retryAfter, b.sendChange(ctx, ours) // the answer comes as an event
	case pending != nil:
		received, err := b.wasReceived(ctx, ours)
		if err != nil {
			return retryAfter, err // the broker is away: the change waits
		}
		if received {
			return retryAfter, b.recordChange(ctx, ours, pending.TurnedDown(api.ReasonNoAnswer, ""))
		}
	case sameChange(want, ours.Unchanged()):
		return 0, nil
	case c != nil && sameChange(want, *c):
		if left := market.RetryTime - now.Go().Sub(ours.Changed.Go()); left > 0 {
			return left, nil
		}
	}
	return retryAfter, b.signAndRecordChange(ctx, ours, want, ours.Latest()+1)
}

// wasReceived reports whether the broker received the pending change. One that did not is back: what it missed
// is signed again, and is no refusal. Errors: the broker's.
func (b *Borrower) wasReceived(ctx context.Context, ours *market.Reservation) (bool, error) {
	theirs, err := b.Broker.Reservation(ctx, ours.ID)
	if api.CodeOf(err) == api.CodeNotFound { // a connector learns it when it is sent
		return false, nil
	}
	c := theirs.Payload.Change
	return theirs.Payload.Generation >= ours.Change.Generation ||
		c != nil && c.Generation >= ours.Change.Generation, err
}

// signAndRecordChange signs a change as this generation and records it. The record makes the
// controller send it.
func (b *Borrower) signAndRecordChange(
	ctx context.Context, ours *market.Reservation, c market.Change, generation int64,
) (err error) {
	c.Generation = generation
	c.HeldUntil = market.At(b.Market.Now().Go().Add(market.HoldTime).Truncate(time.Second))
	if ours.Sale != nil {
		c.From = market.At(b.Market.Now().Go().Truncate(time.Second))
	}
	if c.Assignment, err = b.signChange(ctx, ours, c); err != nil {
		return err
	}
	return b.recordChange(ctx, ours, c)
}

// wantedChange returns the size and end that a wish asks of a reservation.
func wantedChange(w Wish, ours *market.Reservation) (market.Change, error) {
	size, units, err := wantedSize(w, ours)
	if err != nil {
		return market.Change{}, err
	}
	until := ours.Created.Go().Add(api.DurationOf(w.Request.Duration)).Truncate(time.Second)
	return market.Change{Size: size, Units: units, Until: market.At(until)}, nil
}

func wantedSize(w Wish, ours *market.Reservation) (size amounts.List, units int64, err error) {
	if ours.Sale == nil {
		size, err = amounts.ParseRequest("resources", w.Request.Resources)
		return size, 0, cmp.Or(err, amounts.CheckWhole("resources", w.Request.Resources))
	}
	units = ours.Sale.Units
	if w.Request.Purchase == nil && w.Request.MaxPrice != nil && ours.Offer != nil {
		sale, _, size, err := ours.Offer.ForRequest(w.Request,
			ours.Sale.Plan, ours.Created.Go(), api.DurationOf(w.Request.Duration))
		if err != nil {
			return nil, 0, err
		}
		return size, sale.Units, nil
	}
	if w.Request.Purchase == nil || ours.Offer == nil || w.Request.Purchase.Units == 0 {
		return ours.Size, units, nil // only its end can change
	}
	units = w.Request.Purchase.Units
	size, err = ours.Offer.Plan(ours.Sale.Plan).Of(units)
	return size, units, err
}

// sameChange reports whether two changes have one size and one end. Times are rounded to seconds.
func sameChange(a, b market.Change) bool {
	return a.Size.Equal(b.Size) && a.Until.Go().Sub(b.Until.Go()).Abs() < 2*time.Second
}

func (b *Borrower) signChange(ctx context.Context, ours *market.Reservation, c market.Change) (string, error) {
	provider, err := trust.Key(ctx, b.Market, ours.Provider)
	if err != nil {
		return "", err
	}
	next := ours.With(c)
	next.HeldUntil = c.HeldUntil
	assignment := market.AssignmentOf(next, b.Key.Public().Fingerprint().String(), provider.Fingerprint().String())
	assignment.Issued = b.issueTime(ours)
	return b.Key.Sign(api.DocumentAssignment, assignment)
}

// recordChange records c as the change of a reservation, unless the reservation has changed since
// it was read.
func (b *Borrower) recordChange(ctx context.Context, ours *market.Reservation, c market.Change) error {
	next := *ours
	next.Change = &c
	note := market.Note{Reservation: &next}
	_, err := b.Market.Do(ctx, market.IfRevision{ID: ours.ID, Revision: ours.Revision, Command: note})
	if api.CodeOf(err) == api.CodePrecondition {
		return nil
	}
	return err
}

// changeRefusals are the errors with which a broker refuses a change, and the reason that users read.
var changeRefusals = map[api.Code]api.Reason{
	api.CodeInsufficient: api.ReasonInsufficient,
	api.CodeCapReached:   api.ReasonCapReached,
	api.CodeForbidden:    api.ReasonPolicy,
	api.CodeInvalid:      api.ReasonBadAssignment,
	api.CodeConflict:     api.ReasonBadAssignment,
}

// sendChange sends the signed change. Repeating it is harmless.
func (b *Borrower) sendChange(ctx context.Context, ours *market.Reservation) error {
	_, err := b.Broker.Confirm(ctx, ours.ID, ours.Change.Assignment)
	reason, refused := changeRefusals[api.CodeOf(err)]
	if !refused {
		return err
	}
	if code := api.CodeOf(err); code == api.CodeInvalid || code == api.CodeConflict {
		theirs, failed := b.Broker.Reservation(ctx, ours.ID)
		switch {
		case failed != nil:
		case code == api.CodeInvalid: // perhaps it names a former key of the provider
			b.Trust.Greet(ctx, b.Market, theirs.Payload.ProviderCard, ours.Provider)
		case waitsForEarlier(theirs.Payload.Change, ours.Change):
			return nil // it is sent again
		}
	}
	return b.recordChange(ctx, ours, ours.Change.TurnedDown(reason, trust.Text(err.Error())))
}

// waitsForEarlier reports whether the broker does not know yet how an earlier change was answered: the
// parties may have made it while the broker was away.
func waitsForEarlier(theirs *api.Change, ours *market.Change) bool {
	return theirs.Pending() && theirs.Generation < ours.Generation
}
