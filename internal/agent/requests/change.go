package requests

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// RetryTime is how long a change that was refused is not asked for again.
const RetryTime = time.Minute

// Change asks for what a wish says now, where that is not what is bound: another size, another end. It signs a newer
// assignment; the answer comes later. again is when to look again, 0 if only at news.
// Errors: Invalid where the wish cannot be; the broker's, where trying again may help.
func (b *Borrower) Change(ctx context.Context, ours *market.Reservation, w Wish) (again time.Duration, err error) {
	want, err := wanted(w, ours)
	if err != nil {
		return 0, err
	}
	now, c := b.Market.Now(), ours.Change
	switch pending := ours.Changing(); {
	case pending != nil && now < pending.HeldUntil:
		return retryAfter, b.propose(ctx, ours) // the answer comes as news
	case pending != nil:
		return retryAfter, b.remember(ctx, ours, pending.TurnedDown(api.ReasonNoAnswer, ""))
	case same(want, ours.AsIs()):
		return 0, nil
	case c != nil && same(want, *c):
		if left := RetryTime - now.Go().Sub(ours.Changed.Go()); left > 0 {
			return left, nil
		}
	}
	return retryAfter, b.sign(ctx, ours, want, ours.Latest()+1)
}

// sign signs a change as this generation and remembers it, which brings the request's controller to send it.
func (b *Borrower) sign(ctx context.Context, ours *market.Reservation, c market.Change, generation int64) (err error) {
	c.Generation, c.HeldUntil = generation, market.At(b.Market.Now().Go().Add(market.HoldTime).Truncate(time.Second))
	if ours.Sale != nil {
		c.From = market.At(b.Market.Now().Go().Truncate(time.Second))
	}
	if c.Assignment, err = b.signChange(ctx, ours, c); err != nil {
		return err
	}
	return b.remember(ctx, ours, c)
}

// wanted is what a wish makes of a reservation.
func wanted(w Wish, ours *market.Reservation) (market.Change, error) {
	size, units, err := wantedSize(w, ours)
	if err != nil {
		return market.Change{}, err
	}
	until := ours.Created.Go().Add(durationOf(w.Request)).Truncate(time.Second)
	return market.Change{Size: size, Units: units, Until: market.At(until)}, nil
}

func wantedSize(w Wish, ours *market.Reservation) (size market.Amounts, units int64, err error) {
	if ours.Sale == nil {
		size, err = market.Need("resources", w.Request.Resources)
		return size, 0, err
	}
	units = ours.Sale.Units
	if w.Request.Purchase == nil && w.Request.MaxPrice != nil && ours.Offer != nil {
		sale, _, size, err := ours.Offer.Answers(w.Request, ours.Sale.Plan, ours.Created.Go(), durationOf(w.Request))
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

// same says whether two are of one size and end, but for what rounding to seconds makes of times.
func same(a, b market.Change) bool {
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
	assignment.Issued = b.issue(ours)
	return b.Key.Sign(api.DocumentAssignment, assignment)
}

// remember makes c what the Ledger says of the change, unless the reservation has changed since it was read.
func (b *Borrower) remember(ctx context.Context, ours *market.Reservation, c market.Change) error {
	next := *ours
	next.Change = &c
	_, err := b.Market.Do(ctx, market.IfRevision{ID: ours.ID, Revision: ours.Revision, Command: market.Note{Reservation: &next}})
	if api.CodeOf(err) == api.CodePrecondition {
		return nil
	}
	return err
}

// noes are the errors with which a broker turns a change down, and the reason that people read.
var noes = map[api.Code]api.Reason{
	api.CodeInsufficient: api.ReasonInsufficient,
	api.CodeForbidden:    api.ReasonPolicy,
	api.CodeInvalid:      api.ReasonBadAssignment,
	api.CodeConflict:     api.ReasonBadAssignment,
}

// propose sends the signed change. A repeat is harmless.
func (b *Borrower) propose(ctx context.Context, ours *market.Reservation) error {
	_, err := b.Broker.Confirm(ctx, ours.ID, ours.Change.Assignment)
	if reason, no := noes[api.CodeOf(err)]; no {
		if api.CodeOf(err) == api.CodeInvalid { // perhaps because it names a key that the provider has no more
			if theirs, err := b.Broker.Reservation(ctx, ours.ID); err == nil {
				b.Trust.Greet(ctx, b.Market, theirs.Payload.ProviderCard, ours.Provider)
			}
		}
		return b.remember(ctx, ours, ours.Change.TurnedDown(reason, trust.Text(err.Error())))
	}
	return err
}
