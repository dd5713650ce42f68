package requests

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ApplySignedEnd ends a reservation if a party signed its end, whichever broker passes that on.
// Nothing else in theirs counts.
func (b *Borrower) ApplySignedEnd(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation,
) error {
	if ours.State.Over() || ours.State == api.Releasing {
		return nil
	}
	if err := trust.CheckShown(theirs.Payload); err != nil {
		return err
	}
	end, signed := b.verifyEnd(ctx, theirs.Payload.End, ours)
	if !signed {
		return nil
	}
	return b.record(ctx, &transport.Reservation{ID: theirs.ID, Payload: api.Reservation{
		State: api.Releasing, End: theirs.Payload.End, Fence: ours.Fence,
	}}, ours, &end)
}

// verifyEnd returns the end of a reservation, and whether one of the two parties signed it. Its reason is what that
// party may say: a provider that ends a reservation does not say that the consumer released it.
func (b *Borrower) verifyEnd(ctx context.Context, document string, ours *market.Reservation) (api.End, bool) {
	parties := trust.Parties(ctx, b.Market, ours)
	parties[b.Cluster] = append(parties[b.Cluster], b.Key.Public())
	end, signed := trust.EndSigned(document, ours, parties)
	released := end.Reason == api.ReasonReleased || end.Reason == api.ReasonCancelled
	if signed && end.By == ours.Provider && released && ours.State != api.Releasing {
		end.Reason = api.ReasonRevokedByProvider
	}
	return end, signed
}

// End ends a reservation of ours because its object is gone. Sync sends that to the broker until
// the broker knows.
func (b *Borrower) End(ctx context.Context, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing {
		return nil
	}
	now := b.Market.Now()
	document, err := b.signEnd(ours, api.ReasonReleased, now)
	if err != nil {
		return err
	}
	_, err = b.Market.Do(ctx, market.Release{
		ID: ours.ID, By: b.Cluster, Generation: ours.Generation, Reason: api.ReasonReleased, Document: document, At: now,
	})
	return err
}

// EndSigned ends a reservation that the Ledger does not know: this cluster signed it, and lost it when
// an older Ledger was restored. Errors: NotFound if it is not this cluster's; the broker's.
func (b *Borrower) EndSigned(ctx context.Context, id string) error {
	theirs, err := b.Broker.Reservation(ctx, id)
	if err != nil {
		return err
	}
	ours, err := b.readEverSigned(ctx, &theirs)
	if err != nil {
		return api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).
			FixBy("see", "bourse", "reservations")
	}
	document, err := b.signEnd(ours, api.ReasonReleased, b.Market.Now())
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, id, document)
	return err
}

// signEnd signs the end of a reservation, which begins at a time.
func (b *Borrower) signEnd(ours *market.Reservation, reason api.Reason, at market.Time) (string, error) {
	assignment := ""
	if ours.Assignment != "" {
		assignment = clusterkey.Digest(ours.Assignment).String()
	}
	return b.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Assignment: assignment, Generation: ours.Generation, By: b.Cluster,
		Consumer: b.Cluster, Provider: ours.Provider, Reason: reason,
		At: at.Meta(),
	})
}

// publishEnd sends the broker the end of a reservation of ours, until the broker knows, and records
// when the provider has freed it.
func (b *Borrower) publishEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State.Over() && ours.State.Over():
		return nil
	case t.State.Over():
		return b.recordState(ctx, theirs, ours)
	case t.State == api.Releasing && t.End != "" && !trust.NamesNothing(t.End):
		return nil
	}
	newest := *ours
	newest.Generation = max(t.Generation, ours.Generation) // it may be newer there
	if t.Assignment != "" && t.Generation >= ours.Generation {
		newest.Assignment = t.Assignment
	}
	if ours.Acceptance == "" {
		newest.Provider = t.Provider
	}
	document, err := b.signEnd(&newest, ours.Reason, ours.LastsUntil())
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, theirs.ID, document)
	if api.CodeOf(err) == api.CodeNotFound && ours.State == api.Releasing { // nobody else has it any more
		newest = *ours
		newest.State = api.Released
		_, err = b.Market.Do(ctx, market.Note{Reservation: &newest})
	}
	return transport.IgnoreGone(err)
}
