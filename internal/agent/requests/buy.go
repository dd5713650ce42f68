package requests

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// bought is a request with what is bought for it filled in, and the offer that it is from; a request for which nothing is bought comes
// back as it is. The seller's pinned key must have signed the offer, and the broker must hold exactly what the offer sells.
// Errors: BadSignature when the broker shows something that cannot be right; Conflict when the offer is not what was looked at.
func (b *Borrower) bought(ctx context.Context, theirs *transport.Reservation, asked api.Request) (api.Request, *market.Offer, error) {
	t := theirs.Payload
	named, may := asked.Purchase != nil, asked.MaxPrice != nil // the plan; or any that answers
	if named && (t.Sale == nil || t.Provider != asked.Purchase.Seller) || t.Sale != nil && !named && !may {
		return asked, nil, api.Errorf(api.CodeBadSignature, "the broker answers with a hold from another plan").Fix("nothing was signed; ask the broker's operator")
	}
	if t.Sale == nil {
		return asked, nil, nil
	}
	if begun := b.Market.Now().Go().Sub(t.Created.Time); t.Assignment == "" && begun > market.DecideTime+market.SkewGrace { // it would be paid for
		return asked, nil, api.Errorf(api.CodeBadSignature, "the broker answers with a hold that began %s ago", begun).Fix("nothing was signed; ask the broker's operator")
	}
	if _, err := b.meet(ctx, theirs); err != nil {
		return asked, nil, err
	}
	offer, err := b.offer(ctx, theirs, t.Sale)
	if err != nil {
		return asked, nil, err
	}
	var sale *api.Sale
	var plan *market.Plan
	var size market.Amounts
	if named {
		sale, plan, size, err = offer.Fulfils(asked, t.Created.Time, durationOf(asked))
	} else {
		sale, plan, size, err = offer.Answers(asked, t.Sale.Plan, t.Created.Time, durationOf(asked))
	}
	if err != nil {
		return asked, nil, err
	}
	if *sale != *t.Sale {
		return asked, nil, api.Errorf(api.CodeBadSignature, "the broker answers with a hold from another plan").Fix("nothing was signed; ask the broker's operator")
	}
	if named {
		asked.Target = offer.Signed.Seller
	}
	asked.Pool, asked.Resources = plan.Pool, size.Resources()
	return asked, offer, nil
}

// offer is the one that the broker shows with a reservation, if a key of the provider's signed it and the sale names it.
func (b *Borrower) offer(ctx context.Context, theirs *transport.Reservation, sale *api.Sale) (*market.Offer, error) {
	keys, err := trust.Keys(ctx, b.Market, theirs.Payload.Provider)
	if err != nil {
		return nil, err
	}
	offer, err := trust.Offer(theirs.Payload.Offer, keys...)
	if err == nil && (offer.Signed.Seller != theirs.Payload.Provider || offer.Digest != sale.Offer) {
		err = api.Errorf(api.CodeBadSignature, "the broker shows another offer than the one that was bought")
	}
	return offer, err
}
