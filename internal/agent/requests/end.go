package requests

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// HearEnd notes an end that a party signed, whoever passes that on. Nothing else that theirs says counts.
func (b *Borrower) HearEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing || !b.endSigned(ctx, theirs.Payload.End, ours) {
		return nil
	}
	end := transport.Reservation{ID: theirs.ID, Payload: api.Reservation{State: api.Releasing, Reason: theirs.Payload.Reason, End: theirs.Payload.End, Fence: ours.Fence}}
	return b.note(ctx, &end, ours)
}

func (b *Borrower) endSigned(ctx context.Context, document string, ours *market.Reservation) bool {
	_, signed := trust.EndSigned(document, ours, append(trust.Parties(ctx, b.Market, ours), b.Key.Public())...)
	return signed
}

// End ends a reservation of ours because its object is gone. The broker is told by finish, again and
// again until it knows.
func (b *Borrower) End(ctx context.Context, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing {
		return nil
	}
	document, err := b.signEnd(ours, api.ReasonReleased)
	if err != nil {
		return err
	}
	_, err = b.Market.Do(ctx, market.Release{ID: ours.ID, By: b.Cluster, Generation: ours.Generation, Reason: api.ReasonReleased, Document: document})
	return err
}

// Disown ends a reservation of which the Ledger knows nothing: this cluster signed it, and lost it with an older
// state that was put back. Errors: NotFound when it is not this cluster's; the broker's.
func (b *Borrower) Disown(ctx context.Context, id string) error {
	theirs, err := b.Broker.Reservation(ctx, id)
	if err != nil {
		return err
	}
	ours, err := b.everSigned(ctx, &theirs)
	if err != nil {
		return api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).Fix("see: bourse reservations")
	}
	document, err := b.signEnd(ours, api.ReasonReleased)
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, id, document)
	return err
}

func (b *Borrower) signEnd(ours *market.Reservation, reason api.Reason) (string, error) {
	assignment := ""
	if ours.Assignment != "" {
		assignment = clusterkey.Digest(ours.Assignment).String()
	}
	return b.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Assignment: assignment, Generation: ours.Generation, By: b.Cluster,
		Consumer: b.Cluster, Provider: ours.Provider, Reason: reason,
	})
}

// finish tells the broker of an end of ours until it knows, and notes when the provider is free of it.
func (b *Borrower) finish(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State.Over() && ours.State.Over():
		return nil
	case t.State.Over():
		return b.note(ctx, theirs, ours)
	case t.State == api.Releasing && t.End != "" && !trust.NamesNothing(t.End):
		return nil
	}
	newest := *ours
	newest.Generation = max(t.Generation, ours.Generation) // it may have moved on meanwhile
	if t.Assignment != "" && t.Generation >= ours.Generation {
		newest.Assignment = t.Assignment
	}
	if ours.Acceptance == "" {
		newest.Provider = t.Provider
	}
	document, err := b.signEnd(&newest, ours.Reason)
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, theirs.ID, document)
	if api.CodeOf(err) == api.CodeNotFound && ours.State == api.Releasing { // nobody is left to end it with
		newest = *ours
		newest.State = api.Released
		_, err = b.Market.Do(ctx, market.Note{Reservation: &newest})
	}
	return unlessMovedOn(err)
}
