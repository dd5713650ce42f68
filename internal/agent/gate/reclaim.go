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

// Reclaim takes a contract back with the notice that its plan has, and returns when it ends. Repeating it changes nothing.
// Errors: NotFound; Forbidden where the plan has no notice; Conflict where it is not bound.
func (g *Gate) Reclaim(ctx context.Context, id string) (time.Time, error) {
	ours, err := g.record(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	issued := g.Market.Now().Go().Truncate(time.Second).Add(time.Second) // documents have whole seconds: no less than the notice
	document, err := g.signReclaim(ours, issued, issued.Add(ours.Notice()+time.Second).Truncate(time.Second))
	if err != nil {
		return time.Time{}, err
	}
	command := market.Reclaim{ID: id, By: g.Cluster}
	if ours.Notice() > 0 {
		if command, err = trust.Reclaimed(document, ours, g.Key.Public()); err != nil {
			return time.Time{}, err
		}
	}
	out, err := g.Market.Do(ctx, command) // its change makes the broker hear of it
	if err != nil {
		return time.Time{}, err
	}
	return out.Reservation.EndsAt().Go(), nil
}

// signReclaim signs that the contract, as it is now, is taken back.
func (g *Gate) signReclaim(ours *market.Reservation, issued, effective time.Time) (string, error) {
	return g.Key.Sign(api.DocumentReclaim, api.Reclaim{
		Protocol: api.Protocol, Reservation: ours.ID, Consumer: ours.Consumer, Provider: g.Cluster,
		Assignment: clusterkey.Digest(ours.Assignment).String(), Issued: metav1.NewTime(issued), Effective: metav1.NewTime(effective),
	})
}

// reclaimed tells the broker that a contract was taken back, until it knows, or takes that back into a Ledger that lost it.
func (g *Gate) reclaimed(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	switch said := theirs.Payload.Reclaim; {
	case !ours.Bound() || said == "" && ours.Reclaim == "":
		return nil
	case said == "":
		document := ours.Reclaim
		var word api.Reclaim
		if err := trust.Claimed(document, &word); err != nil {
			return err
		}
		if !trust.Names(word.Assignment, ours) { // the contract has changed since
			var err error
			if document, err = g.signReclaim(ours, word.Issued.UTC(), word.Effective.UTC()); err != nil {
				return err
			}
		}
		_, err := g.Broker.Release(ctx, ours.ID, document)
		if api.CodeOf(err) == api.CodeBadSignature { // of a key that was succeeded, or a broker that knows no such word: it hears of the end
			g.Log.Warn("the broker does not take the word that a contract is taken back", "reservation", ours.ID, "error", err)
			return nil
		}
		return unlessGone(err)
	case ours.Reclaim == "":
		command, err := trust.Reclaimed(said, ours, append(trust.Seller(ctx, g.Market, ours), g.Key.Public())...)
		if err != nil {
			g.Log.Warn("the broker says that this cluster takes a contract back, which it did not sign: not believed", "reservation", ours.ID, "error", err)
			return nil
		}
		_, err = g.Market.Do(ctx, command)
		return err
	}
	return nil
}
