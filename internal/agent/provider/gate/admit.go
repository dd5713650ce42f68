package gate

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// admit checks an assignment completely and puts it into the gate's books. It returns the signed
// acceptance, or none where an admin has to approve the assignment first. ours is what it replaces,
// nil for nothing. adopting says that it was accepted before: then it need not fit any more. An
// error with a code in refusals is the answer to the consumer.
func (g *Gate) admit(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, adopting bool,
) (string, error) {
	if theirs.Payload.Consumer == g.Cluster {
		return "", api.Errorf(api.CodeBadSignature, "cluster %s does not borrow from itself", g.Cluster)
	}
	card, key, stranger, err := g.findConsumer(ctx, theirs, adopting)
	if adopting && isFinal(err) { // the broker may show the right card later: a card says nothing about the reservation
		return "", api.Errorf(api.CodeUnavailable, "the consumer's card of an accepted reservation is missing: %s", err)
	}
	if err != nil {
		return "", err
	}
	keys := []clusterkey.PublicKey{key}
	if adopting { // our own signature says that we believed the assignment when the consumer had that key
		if keys, err = trust.Keys(ctx, g.Market, card.Cluster); err != nil {
			return "", err
		}
	}
	a, err := g.verifyAssignment(theirs, card, keys...)
	if err != nil {
		return "", err
	}
	size, err := amounts.ParseRequest("resources", a.Resources)
	if err != nil {
		return "", err
	}
	if len(size) != len(a.Resources) && !adopting { // names without an amount only make the document longer
		return "", api.Errorf(api.CodeBadSignature, "the assignment names resources with the amount 0")
	}
	offer, err := g.findOffer(ctx, theirs, a, size)
	if err != nil && adopting { // the broker may show the right offer later
		return "", api.Errorf(api.CodeUnavailable, "the offer of an accepted reservation is missing: %s", err)
	}
	if err != nil {
		return "", err
	}
	bound := ours != nil && ours.Bound()
	var approval *metav1.Duration
	var terms *market.Terms
	if shrinks := bound && ours.Size.Fits(size) && !a.Until.After(ours.Until.Go()); !adopting && !shrinks {
		if terms, err = g.checkPolicy(a, offer, !bound, card); err != nil {
			return "", err
		}
		if approval, err = g.approvalTime(terms, offer, bound); err != nil {
			return "", err
		}
	}
	if stranger { // the policy allows it: pin its key
		if _, _, err := g.Trust.Meet(ctx, g.Market, theirs.Payload.ConsumerCard, theirs.Payload.Consumer); err != nil {
			return "", err
		}
	}
	if late := g.checkTimes(a, approval); late != "" && !adopting {
		return "", api.Errorf(api.CodeBadSignature, "the assignment %s", late)
	}
	// The acceptance binds for longer than the assignment, by as much as clocks may differ.
	acceptance, approveBy, expires := "", market.Time(0), metav1.NewTime(a.Expires.Add(market.SkewGrace))
	if approval != nil {
		approveBy = market.At(a.Expires.Time)
	} else {
		acceptance, err = g.signAcceptance(a.Reservation, a.Generation, a.Consumer, theirs.Payload.Assignment, expires)
		if err != nil {
			return "", err
		}
	}
	out, err := g.Market.Do(ctx, market.Admit{
		Assignment: a, Size: size, Document: theirs.Payload.Assignment, Acceptance: acceptance,
		BindsUntil: market.At(expires.Time), ApproveBy: approveBy, Fence: theirs.Payload.Fence,
		Adopt: adopting, Via: g.via, Offer: offer, Terms: terms,
	})
	if err != nil {
		return "", err
	}
	return out.Reservation.AnswerTo(theirs.Payload.Assignment), nil
}

// findConsumer opens the consumer's card and returns its pinned key. The key of a stranger is
// pinned only after the policy has allowed it: otherwise a broker could fill the Ledger with
// clusters that it invents. A reservation that is adopted was allowed before.
func (g *Gate) findConsumer(
	ctx context.Context, theirs *transport.Reservation, adopting bool,
) (card *api.Card, key clusterkey.PublicKey, stranger bool, err error) {
	signed, consumer := theirs.Payload.ConsumerCard, theirs.Payload.Consumer
	if _, err := trust.Key(ctx, g.Market, consumer); !adopting && api.CodeOf(err) == api.CodeNotFound {
		card, key, err = trust.Open(signed)
		if err == nil && card.Cluster != consumer {
			err = api.Errorf(api.CodeBadSignature, "the card is of cluster %.80q, not of %s", card.Cluster, consumer)
		}
		return card, key, true, err
	}
	card, key, err = g.Trust.Meet(ctx, g.Market, signed, consumer)
	return card, key, false, err
}

// signAcceptance signs the acceptance of an assignment, which binds until expires.
func (g *Gate) signAcceptance(
	id string, generation int64, consumer, assignment string, expires metav1.Time,
) (string, error) {
	return g.Key.Sign(api.DocumentAcceptance, api.Acceptance{
		Protocol: api.Protocol, Reservation: id, Generation: generation, Consumer: consumer, Provider: g.Cluster,
		Assignment: clusterkey.Digest(assignment).String(), Expires: expires,
	})
}
