package requests

import (
	"context"

	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// applyReclaim records that the seller takes a contract back, if the seller signed that and leaves
// the agreed notice. It reports whether that changed the Ledger.
func (b *Borrower) applyReclaim(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation,
) (changed bool, err error) {
	if theirs.Payload.Reclaim == "" || ours.Reclaim != "" || !ours.Bound() {
		return false, nil
	}
	command, err := trust.Reclaimed(theirs.Payload.Reclaim, ours, trust.Seller(ctx, b.Market, ours)...)
	if err != nil {
		b.Log.Warn("the broker says that the seller takes a contract back, without the seller's valid "+
			"signature: not believed",
			"reservation", ours.ID, "error", err)
		return false, nil
	}
	_, err = b.Market.Do(ctx, command)
	return err == nil, err
}
