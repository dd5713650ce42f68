package requests

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// checkPurchase returns the request with the size and pool of the plan that the broker holds for
// it, and the plan's offer. It returns a request that buys nothing unchanged, without an offer. The
// seller's pinned key must have signed the offer, and the broker must hold exactly what the offer
// sells. Errors: BadSignature if what the broker shows cannot be right; Conflict if the offer is
// not the one that the user saw.
func (b *Borrower) checkPurchase(
	ctx context.Context, shown *transport.Reservation, asked api.Request,
) (api.Request, *market.Offer, error) {
	t := shown.Payload
	named, may := asked.Purchase != nil, asked.MaxPrice != nil // it names a plan; or any plan may serve it
	if named && (t.Sale == nil || t.Provider != asked.Purchase.Seller) || t.Sale != nil && !named && !may {
		return asked, nil, errOtherPlan()
	}
	if t.Sale == nil {
		return asked, nil, nil
	}
	began := b.Market.Now().Go().Sub(t.Created.Time)
	if t.Assignment == "" && began > market.DecideTime+market.SkewGrace { // the time since then would be paid for
		return asked, nil, api.Errorf(api.CodeBadSignature, "the broker answers with a hold that began %s ago", began).
			Fix("nothing was signed; ask the broker's operator")
	}
	if _, err := b.meetProvider(ctx, shown); err != nil {
		return asked, nil, err
	}
	offer, err := b.verifyOffer(ctx, shown, t.Sale)
	if err != nil {
		return asked, nil, err
	}
	var sale *api.Sale
	var plan *market.Plan
	var size amounts.List
	if named {
		sale, plan, size, err = offer.Fulfils(asked, t.Created.Time, api.DurationOf(asked.Duration))
	} else {
		sale, plan, size, err = offer.ForRequest(asked, t.Sale.Plan, t.Created.Time, api.DurationOf(asked.Duration))
	}
	if err != nil {
		return asked, nil, err
	}
	if *sale != *t.Sale {
		return asked, nil, errOtherPlan()
	}
	if named {
		asked.Target = offer.Signed.Seller
	}
	asked.Pool, asked.Resources = plan.Pool, size.Resources()
	return asked, offer, nil
}

// errOtherPlan says that the broker holds something that was not asked for.
func errOtherPlan() error {
	return api.Errorf(api.CodeBadSignature, "the broker answers with a hold from another plan").
		Fix("nothing was signed; ask the broker's operator")
}

// verifyOffer returns the offer that the broker shows with a reservation. Errors: BadSignature
// unless a key of the provider signed it and the sale names it.
func (b *Borrower) verifyOffer(
	ctx context.Context, shown *transport.Reservation, sale *api.Sale,
) (*market.Offer, error) {
	keys, err := trust.Keys(ctx, b.Market, shown.Payload.Provider)
	if err != nil {
		return nil, err
	}
	offer, err := trust.Offer(shown.Payload.Offer, keys...)
	if err == nil && (offer.Signed.Seller != shown.Payload.Provider || offer.Digest != sale.Offer) {
		err = api.Errorf(api.CodeBadSignature, "the broker shows another offer than the one that was bought")
	}
	return offer, err
}
