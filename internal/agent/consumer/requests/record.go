package requests

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// newRecord returns the Ledger's record of what the broker shows, before anything is signed.
// signHold checks it.
func newRecord(theirs *transport.Reservation) (*market.Reservation, error) {
	t := theirs.Payload
	size, err := amounts.ParseRequest("resources", t.Resources)
	from := market.Time(0)
	if t.Sale != nil {
		from = market.At(t.Created.Truncate(time.Second))
	}
	r := &market.Reservation{
		From: from, Provider: t.Provider, Pool: t.Pool, Size: size, Generation: t.Generation, Sale: t.Sale,
		Created: market.At(t.Created.Time), HeldUntil: market.At(t.HeldUntil.Time),
		ApproveBy: approveBy(t, t.ApproveBy), Until: market.At(t.Until.Time), Group: t.Group,
	}
	if t.Waiting != nil {
		r.WaitUntil = market.At(t.Waiting.Until.Time)
	}
	return r, err
}

// approveBy returns by when the provider's admin may approve a reservation; 0 if it needs no approval.
func approveBy(t api.Reservation, by metav1.Time) market.Time {
	if t.ApproveBy.IsZero() {
		return 0
	}
	return market.At(by.Time)
}

// readSigned returns the record of the assignment that the broker shows. This cluster must have
// signed it with its present key or, if the Ledger (ours, nil for nothing) has the same document,
// with a former one. Errors: BadSignature.
func (b *Borrower) readSigned(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation,
) (*market.Reservation, error) {
	document := theirs.Payload.Assignment
	known := ours != nil && (document == ours.Assignment || ours.Change != nil && document == ours.Change.Assignment)
	if known && document != "" {
		return b.readEverSigned(ctx, theirs)
	}
	return b.readSignedBy(theirs, b.Key.Public())
}

// readEverSigned is readSigned for any key that this cluster has or had.
func (b *Borrower) readEverSigned(ctx context.Context, theirs *transport.Reservation) (*market.Reservation, error) {
	return b.readSignedBy(theirs, b.ownKeys(ctx)...)
}

// HasSigned reports whether this cluster signed the assignment that the broker shows.
func (b *Borrower) HasSigned(ctx context.Context, theirs *transport.Reservation) bool {
	_, err := b.readEverSigned(ctx, theirs)
	return err == nil
}

// ownKeys returns the keys that this cluster has and had.
func (b *Borrower) ownKeys(ctx context.Context) []clusterkey.PublicKey {
	keys, _ := trust.Keys(ctx, b.Market, b.Cluster) // none before the first card
	return append(keys, b.Key.Public())
}

// namesKey reports whether an assignment of ours names a key as the provider's.
func (b *Borrower) namesKey(ctx context.Context, assignment string, provider clusterkey.PublicKey) bool {
	var a api.Assignment
	_, err := trust.Verified(assignment, api.DocumentAssignment, &a, b.ownKeys(ctx)...)
	return err == nil && a.ProviderKey == provider.Fingerprint().String()
}

// readSignedBy returns the record of the assignment that the broker shows, if this cluster signed
// it with one of keys.
func (b *Borrower) readSignedBy(
	theirs *transport.Reservation, keys ...clusterkey.PublicKey,
) (*market.Reservation, error) {
	var a api.Assignment
	_, err := trust.Verified(theirs.Payload.Assignment, api.DocumentAssignment, &a, keys...)
	if err != nil || a.Reservation != theirs.ID || a.Consumer != b.Cluster || a.Provider != theirs.Payload.Provider {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with a reservation that this cluster did not sign")
	}
	size, err := amounts.ParseRequest("resources", a.Resources)
	return &market.Reservation{
		ID: a.Reservation, State: api.Held, Consumer: a.Consumer, Provider: a.Provider, Pool: a.Pool, Size: size,
		Generation: a.Generation, Assignment: theirs.Payload.Assignment, Sale: a.Sale, From: beginOf(a),
		Created: market.At(theirs.Payload.Created.Time), HeldUntil: market.At(theirs.Payload.HeldUntil.Time),
		ApproveBy: approveBy(theirs.Payload, a.Expires), Until: market.At(a.Until.Time), Relend: a.Relend,
		RelendKey: a.RelendKey,
	}, err
}

// beginOf returns when the paid time of a purchase begins; 0 for an assignment that buys nothing.
func beginOf(a api.Assignment) market.Time {
	if a.Sale == nil {
		return 0
	}
	return market.At(a.Begins.Time)
}

// refusedChange returns the record of a change that the broker says was refused.
func refusedChange(ours *market.Change, theirs *api.Change) *market.Change {
	c := market.Change{Generation: theirs.Generation}
	if ours != nil && ours.Generation == theirs.Generation {
		c = *ours
	}
	c = c.TurnedDown(trust.Reason(theirs.Reason), trust.Text(theirs.Message))
	return &c
}

// recordState records the state that the broker shows. What the reservation is about stays as it
// was checked and signed.
func (b *Borrower) recordState(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	return b.record(ctx, theirs, ours, nil)
}

// record does what recordState says. end is what a party signed, nil if nothing: then the broker's word counts for why
// it ends.
func (b *Borrower) record(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation,
	end *api.End) error {
	t := theirs.Payload
	next := *ours
	next.ID, next.Consumer, next.Fence = theirs.ID, b.Cluster, t.Fence
	if ours.Revision == 0 {
		next.Via = b.via
	}
	next.State, next.Reason, next.Message = t.State, trust.Reason(t.Reason), trust.Text(t.Message)
	if nobodyAnswered(t) {
		next.Reason = api.ReasonNoAnswer
	}
	if end != nil {
		next.Reason = end.Reason
	}
	if (t.State == api.Rejected || t.State == api.Pending) && t.Decision != nil {
		next.Message = trust.Text(explain(t.Decision))
	}
	switch {
	case t.State == api.Reserved || t.State == api.Active:
		next.Acceptance, next.HeldUntil, next.ApproveBy = t.Acceptance, 0, 0
	case t.End != "":
		next.End = t.End
	}
	if c := t.Change; c != nil && c.Reason != "" && c.Generation >= next.Latest() { // refused, or not answered
		next.Change = refusedChange(next.Change, c)
	}
	known := ours.Revision > 0
	sameDocuments := ours.Assignment == next.Assignment && ours.Acceptance == next.Acceptance
	if known && sameDocuments && ours.State == next.State && ours.Generation == next.Generation &&
		equality.Semantic.DeepEqual(ours.Change, next.Change) {
		return nil // nothing to record: idle means idle
	}
	note := market.Note{Reservation: &next}
	if end != nil {
		note.Signer, note.At = end.By, market.At(end.At.Time)
	}
	var command market.Command = note
	if known { // something may have been signed since: then the error brings us here again
		command = market.IfRevision{ID: next.ID, Revision: ours.Revision, Command: command}
	}
	_, err := b.Market.Do(ctx, command)
	return err
}
