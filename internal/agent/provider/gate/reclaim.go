package gate

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// reclaim takes back a contract as it was read, with the notice of its plan, and returns when the contract ends.
// Repeating it changes nothing. Errors: Forbidden where the plan has no notice; Conflict where the contract is not bound;
// PreconditionFailed if it has changed since.
func (g *Gate) reclaim(ctx context.Context, ours *market.Reservation) (time.Time, error) {
	// Documents have whole seconds. Both are rounded up, so that the notice is never shorter than agreed.
	issued := g.Market.Now().Go().Truncate(time.Second).Add(time.Second)
	effective := issued.Add(ours.Notice() + time.Second).Truncate(time.Second)
	document, err := g.signReclaim(ours, issued, effective)
	if err != nil {
		return time.Time{}, err
	}
	command := market.Reclaim{ID: ours.ID, By: g.Cluster}
	if ours.Notice() > 0 {
		if command, err = trust.Reclaimed(document, ours, g.Key.Public()); err != nil {
			return time.Time{}, err
		}
	}
	unchanged := market.IfRevision{ID: ours.ID, Revision: ours.Revision, Command: command}
	out, err := g.Market.Do(ctx, unchanged) // the Ledger's change makes Sync send it
	if err != nil {
		return time.Time{}, err
	}
	return out.Reservation.EndsAt().Go(), nil
}

// signReclaim signs that the contract, as it is now, is taken back.
func (g *Gate) signReclaim(ours *market.Reservation, issued, effective time.Time) (string, error) {
	return g.Key.Sign(api.DocumentReclaim, api.Reclaim{
		Protocol: api.Protocol, Reservation: ours.ID, Consumer: ours.Consumer, Provider: g.Cluster,
		Assignment: clusterkey.Digest(ours.Assignment).String(),
		Issued:     metav1.NewTime(issued), Effective: metav1.NewTime(effective),
	})
}

// syncReclaim makes the broker and the Ledger agree on whether a contract was taken back.
func (g *Gate) syncReclaim(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	switch shown := theirs.Payload.Reclaim; {
	case !ours.Bound():
		return nil
	case shown == "" && ours.Reclaim != "":
		return g.sendReclaim(ctx, ours)
	case shown != "" && ours.Reclaim == "":
		return g.restoreReclaim(ctx, shown, ours)
	}
	return nil
}

// sendReclaim sends the broker that a contract is taken back.
func (g *Gate) sendReclaim(ctx context.Context, ours *market.Reservation) error {
	document := ours.Reclaim
	var reclaim api.Reclaim
	if err := trust.Claimed(document, &reclaim); err != nil {
		return err
	}
	if !trust.Names(reclaim.Assignment, ours) { // the contract has changed since: sign again
		var err error
		if document, err = g.signReclaim(ours, reclaim.Issued.UTC(), reclaim.Effective.UTC()); err != nil {
			return err
		}
	}
	_, err := g.Broker.Release(ctx, ours.ID, document)
	if api.CodeOf(err) == api.CodeBadSignature {
		// The key has a successor, or the broker is too old for this document. It will be sent the end.
		g.Log.Warn("the broker does not accept that a contract is taken back", "reservation", ours.ID, "error", err)
		return nil
	}
	return transport.IgnoreGone(err)
}

// restoreReclaim puts into a Ledger that lost it that a contract is taken back, if this cluster signed that.
func (g *Gate) restoreReclaim(ctx context.Context, document string, ours *market.Reservation) error {
	command, err := trust.Reclaimed(document, ours, append(trust.Seller(ctx, g.Market, ours), g.Key.Public())...)
	if err != nil {
		g.Log.Warn("the broker says that this cluster takes a contract back, which it did not sign: not believed",
			"reservation", ours.ID, "error", err)
		return nil
	}
	_, err = g.Market.Do(ctx, command)
	return err
}
