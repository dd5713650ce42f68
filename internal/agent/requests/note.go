package requests

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// record is what the broker says that a reservation is, before anything of it is signed. What of it must be
// true, take checks.
func record(theirs *transport.Reservation) (*market.Reservation, error) {
	t := theirs.Payload
	size, err := market.Need("resources", t.Resources)
	from := market.Time(0)
	if t.Sale != nil {
		from = market.At(t.Created.Truncate(time.Second))
	}
	r := &market.Reservation{
		From: from, Provider: t.Provider, Pool: t.Pool, Size: size, Generation: t.Generation, Sale: t.Sale,
		Created: market.At(t.Created.Time), HeldUntil: market.At(t.HeldUntil.Time), ApproveBy: approveBy(t, t.ApproveBy), Until: market.At(t.Until.Time),
	}
	r.Group = t.Group
	if t.Waiting != nil {
		r.WaitUntil = market.At(t.Waiting.Until.Time)
	}
	return r, err
}

// approveBy is until when a person at the provider may approve a reservation; 0 where nobody need.
func approveBy(t api.Reservation, by metav1.Time) market.Time {
	if t.ApproveBy.IsZero() {
		return 0
	}
	return market.At(by.Time)
}

// signed is the record of what this cluster signed, by the assignment that the broker relays: by the key that it has or, where
// the Ledger (ours, nil if it knows nothing) holds the same, by the one that it had.
// Errors: BadSignature when this cluster did not sign it.
func (b *Borrower) signed(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) (*market.Reservation, error) {
	document := theirs.Payload.Assignment
	if ours != nil && document != "" && (document == ours.Assignment || ours.Change != nil && document == ours.Change.Assignment) {
		return b.everSigned(ctx, theirs)
	}
	return b.signedBy(theirs, b.Key.Public())
}

// everSigned is the same by any key that this cluster has or had.
func (b *Borrower) everSigned(ctx context.Context, theirs *transport.Reservation) (*market.Reservation, error) {
	return b.signedBy(theirs, b.ownKeys(ctx)...)
}

// ownKeys are the keys that this cluster has and had.
func (b *Borrower) ownKeys(ctx context.Context) []clusterkey.PublicKey {
	keys, _ := trust.Keys(ctx, b.Market, b.Cluster) // none before the first card
	return append(keys, b.Key.Public())
}

// names says whether an assignment of ours names a key as the provider's.
func (b *Borrower) names(ctx context.Context, assignment string, provider clusterkey.PublicKey) bool {
	var a api.Assignment
	_, err := trust.Verified(assignment, api.DocumentAssignment, &a, b.ownKeys(ctx)...)
	return err == nil && a.ProviderKey == provider.Fingerprint().String()
}

func (b *Borrower) signedBy(theirs *transport.Reservation, keys ...clusterkey.PublicKey) (*market.Reservation, error) {
	var a api.Assignment
	_, err := trust.Verified(theirs.Payload.Assignment, api.DocumentAssignment, &a, keys...)
	if err != nil || a.Reservation != theirs.ID || a.Consumer != b.Cluster || a.Provider != theirs.Payload.Provider {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with a reservation that this cluster did not sign")
	}
	size, err := market.Need("resources", a.Resources)
	return &market.Reservation{
		ID: a.Reservation, State: api.Held, Consumer: a.Consumer, Provider: a.Provider, Pool: a.Pool, Size: size,
		Generation: a.Generation, Assignment: theirs.Payload.Assignment, Sale: a.Sale, From: begins(a),
		Created: market.At(theirs.Payload.Created.Time), HeldUntil: market.At(theirs.Payload.HeldUntil.Time), ApproveBy: approveBy(theirs.Payload, a.Expires), Until: market.At(a.Until.Time),
	}, err
}

// begins is from when on what an assignment sells is paid for; 0 where it sells nothing.
func begins(a api.Assignment) market.Time {
	if a.Sale == nil {
		return 0
	}
	return market.At(a.Begins.Time)
}

// refused is a change of which the broker says that it will not be.
func refused(ours *market.Change, theirs *api.Change) *market.Change {
	c := market.Change{Generation: theirs.Generation}
	if ours != nil && ours.Generation == theirs.Generation {
		c = *ours
	}
	c = c.TurnedDown(trust.Reason(theirs.Reason), trust.Text(theirs.Message))
	return &c
}

// note remembers what became of a reservation. What it is about stays as it was checked and signed.
func (b *Borrower) note(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	next := *ours
	next.ID, next.Consumer, next.Fence = theirs.ID, b.Cluster, t.Fence
	if ours.Revision == 0 {
		next.Via = b.via
	}
	next.State, next.Reason, next.Message = t.State, trust.Reason(t.Reason), trust.Text(t.Message)
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
		next.Change = refused(next.Change, c)
	}
	known := ours.Revision > 0
	if known && ours.State == next.State && ours.Generation == next.Generation && ours.Assignment == next.Assignment && ours.Acceptance == next.Acceptance &&
		equality.Semantic.DeepEqual(ours.Change, next.Change) {
		return nil // nothing to remember: idle means idle
	}
	var command market.Command = market.Note{Reservation: &next}
	if known { // what was signed meanwhile is not forgotten: the error brings us here again
		command = market.IfRevision{ID: next.ID, Revision: ours.Revision, Command: command}
	}
	_, err := b.Market.Do(ctx, command)
	return err
}
