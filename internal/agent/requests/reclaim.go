package requests

import (
	"context"

	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// reclaimed takes in that the seller takes a contract back, if the seller signed it and leaves the notice that was agreed. It says whether
// that is news.
func (b *Borrower) reclaimed(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) (heard bool, err error) {
	if theirs.Payload.Reclaim == "" || ours.Reclaim != "" || !ours.Bound() {
		return false, nil
	}
	command, err := trust.Reclaimed(theirs.Payload.Reclaim, ours, trust.Seller(ctx, b.Market, ours)...)
	if err != nil {
		b.Log.Warn("the broker says that the seller takes a contract back, the seller's signature does not: not believed", "reservation", ours.ID, "error", err)
		return false, nil
	}
	_, err = b.Market.Do(ctx, command)
	return err == nil, err
}
