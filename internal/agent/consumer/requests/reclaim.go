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
	ctx context.Context, shown *transport.Reservation, record *market.Reservation,
) (changed bool, err error) {
	if shown.Payload.Reclaim == "" || record.Reclaim != "" || !record.Bound() {
		return false, nil
	}
	command, err := trust.Reclaimed(shown.Payload.Reclaim, record, trust.Seller(ctx, b.Market, record)...)
	if err != nil {
		b.Log.Warn("the broker says that the seller takes a contract back, without the seller's valid "+
			"signature: not believed",
			"reservation", record.ID, "error", err)
		return false, nil
	}
	_, err = b.Market.Do(ctx, command)
	return err == nil, err
}
