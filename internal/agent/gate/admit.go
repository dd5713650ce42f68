package gate

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// admit checks an assignment from end to end and puts it into the gate's books. It returns
// the signed acceptance, or none where a person has to approve it first. ours is what it is to replace, nil if nothing. adopting is for one that was accepted before:
// that it fits is no longer asked. Errors with a code in refusals are the answer to the consumer.
func (g *Gate) admit(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, adopting bool) (string, error) {
	if theirs.Payload.Consumer == g.Cluster {
		return "", api.Errorf(api.CodeBadSignature, "cluster %s does not borrow from itself", g.Cluster)
	}
	card, key, stranger, err := g.meet(ctx, theirs, adopting)
	if adopting && hopeless(err) { // the broker may show the right one later: a card is no word about the reservation
		return "", api.Errorf(api.CodeUnavailable, "the consumer's card of an accepted reservation is missing: %s", err)
	}
	if err != nil {
		return "", err
	}
	keys := []clusterkey.PublicKey{key}
	if adopting { // our own signature says that we believed it when the consumer had that key
		if keys, err = trust.Keys(ctx, g.Market, card.Cluster); err != nil {
			return "", err
		}
	}
	a, err := g.assignment(theirs, card, keys...)
	if err != nil {
		return "", err
	}
	size, err := market.Need("resources", a.Resources)
	if err != nil {
		return "", err
	}
	if len(size) != len(a.Resources) && !adopting { // names that nobody needs only make it longer
		return "", api.Errorf(api.CodeBadSignature, "the assignment names resources with the amount 0")
	}
	offer, err := g.offer(ctx, theirs, a, size)
	if err != nil && adopting { // the broker may show the right one later
		return "", api.Errorf(api.CodeUnavailable, "the offer of an accepted reservation is missing: %s", err)
	}
	if err != nil {
		return "", err
	}
	bound := ours != nil && ours.Bound()
	var byHand *metav1.Duration
	var terms *market.Terms
	if less := bound && ours.Size.Fits(size) && !a.Until.After(ours.Until.Go()); !adopting && !less {
		if terms, err = g.allowed(a, offer, !bound, card); err != nil {
			return "", err
		}
		if byHand, err = g.byHand(offer, bound); err != nil {
			return "", err
		}
	}
	if stranger { // the policy lets it in
		if _, _, err := g.Trust.Meet(ctx, g.Market, theirs.Payload.ConsumerCard, theirs.Payload.Consumer); err != nil {
			return "", err
		}
	}
	if late := g.late(a, byHand); late != "" && !adopting {
		return "", api.Errorf(api.CodeBadSignature, "the assignment %s", late)
	}
	acceptance, approveBy, expires := "", market.Time(0), binds(a)
	if byHand != nil {
		approveBy = market.At(a.Expires.Time)
	} else {
		if acceptance, err = g.accept(a.Reservation, a.Generation, a.Consumer, theirs.Payload.Assignment, expires); err != nil {
			return "", err
		}
	}
	out, err := g.Market.Do(ctx, market.Admit{
		Assignment: a, Size: size, Document: theirs.Payload.Assignment, Acceptance: acceptance,
		BindsUntil: market.At(expires.Time), ApproveBy: approveBy, Fence: theirs.Payload.Fence, Adopt: adopting, Via: g.via, Offer: offer, Terms: terms,
	})
	if err != nil {
		return "", err
	}
	return out.Reservation.AnswerTo(theirs.Payload.Assignment), nil
}

// meet opens the consumer's card and finds its key pinned. The key of a stranger is pinned once the policy has let it in: anybody whom a
// broker shows could fill the Ledger otherwise. What is taken back was let in before.
func (g *Gate) meet(ctx context.Context, theirs *transport.Reservation, adopting bool) (card *api.Card, key clusterkey.PublicKey, stranger bool, err error) {
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

// accept signs the acceptance of an assignment, which binds until expires.
func (g *Gate) accept(id string, generation int64, consumer, assignment string, expires metav1.Time) (string, error) {
	return g.Key.Sign(api.DocumentAcceptance, api.Acceptance{
		Protocol: api.Protocol, Reservation: id, Generation: generation, Consumer: consumer, Provider: g.Cluster,
		Assignment: clusterkey.Digest(assignment).String(), Expires: expires,
	})
}

// longest is how long anything is lent, with some room for clocks that differ.
const longest = match.LongestDuration + time.Hour

// assignment verifies that the consumer signed an assignment to this cluster, now, of what the broker says it is.
func (g *Gate) assignment(theirs *transport.Reservation, card *api.Card, keys ...clusterkey.PublicKey) (api.Assignment, error) {
	var a api.Assignment
	key, err := trust.Verified(theirs.Payload.Assignment, api.DocumentAssignment, &a, keys...)
	if err != nil {
		return a, err
	}
	if a.Protocol > api.Protocol {
		return a, api.OtherProtocol(api.CodeBadSignature, "the assignment", a.Protocol)
	}
	now := g.Market.Now().Go()
	for _, demand := range []struct {
		holds bool
		what  string
	}{
		{a.Protocol >= 1, "names no protocol"},
		{a.Reservation == theirs.ID && a.Generation >= 1, "is of another reservation"},
		{market.ValidCluster("reservation", a.Reservation) == nil, "is of a reservation that cannot be"},
		{a.Consumer == card.Cluster && a.ConsumerKey == key.Fingerprint().String(), "is of another consumer"},
		{a.Provider == g.Cluster && g.is(a.ProviderKey), "is for another provider"},
		{a.Slice == market.SliceName(a.Consumer, a.Provider, a.Pool), "names a wrong slice"},
		{now.Before(a.Until.Time), "is for a time that is over"},
		{a.Until.Sub(now) <= longest, "is for longer than anything is lent"},
		{theirs.Payload.State != api.Held || now.Before(a.Expires.Add(market.SkewGrace)), "has expired"},
		{a.Expires.Sub(now) <= market.MaxApproval+market.DecideTime+market.SkewGrace, "expires too late"},
		{a.Sale == nil || theirs.Payload.State != api.Held || a.Begins.Sub(now) <= market.DecideTime+market.SkewGrace, "begins at another time"},
	} {
		if !demand.holds {
			return a, api.Errorf(api.CodeBadSignature, "the assignment %s", demand.what)
		}
	}
	return a, nil
}

// offer is the one that an assignment is from, nil if from none: as the Ledger has it or, where it was lost, as this cluster signed
// it. The size must be what its plan sells; whether any is left, the market checks. Errors: Conflict, BadSignature.
func (g *Gate) offer(ctx context.Context, theirs *transport.Reservation, a api.Assignment, size market.Amounts) (offer *market.Offer, err error) {
	if a.Sale == nil {
		return nil, nil
	}
	if err := g.Market.Read(ctx, func(s *market.State) { offer = s.Offer(a.Sale.Offer) }); err != nil {
		return nil, err
	}
	if offer == nil && theirs.Payload.Offer != "" {
		keys, _ := trust.Keys(ctx, g.Market, g.Cluster) // none in a Ledger that lost all
		if offer, err = trust.Offer(theirs.Payload.Offer, append(keys, g.Key.Public())...); err != nil {
			return nil, err
		}
	}
	if offer == nil || offer.Digest != a.Sale.Offer || offer.Signed.Seller != g.Cluster {
		return nil, api.Errorf(api.CodeConflict, "cluster %s does not have the offer %.60s", g.Cluster, a.Sale.Offer)
	}
	return offer, offer.Covers(*a.Sale, a.Pool, size)
}

// is says whether a fingerprint is of a key that this cluster has or had.
func (g *Gate) is(fingerprint string) bool {
	return fingerprint == g.Key.Public().Fingerprint().String() || slices.Contains(g.Former, fingerprint)
}

// allowed evaluates the SharingPolicy, and the offer if there is one: who, for how long, and their expressions. How much, the
// market checks. first says that it is not a change of what is bound. It returns the terms by which it is allowed.
func (g *Gate) allowed(a api.Assignment, offer *market.Offer, first bool, consumer *api.Card) (*market.Terms, error) {
	l := g.Market.View().Listing(g.Cluster)
	if l == nil || l.Measured == nil {
		return nil, api.Errorf(api.CodeUnavailable, "cluster %s has not measured itself yet", g.Cluster)
	}
	if l.Measured.Terms == nil {
		return nil, api.Errorf(api.CodeNotFound, "cluster %s shares nothing", g.Cluster)
	}
	terms := l.Measured.Terms
	if !match.Visible(terms, consumer) {
		return nil, api.Errorf(api.CodeForbidden, "cluster %s does not share with %s", g.Cluster, consumer.Cluster)
	}
	duration := a.Until.Sub(g.Market.Now().Go())
	if terms.MaxDuration != nil && duration > terms.MaxDuration.Duration+time.Minute {
		return nil, api.Errorf(api.CodeForbidden, "longer than %s, which is the most here", terms.MaxDuration.Duration)
	}
	ask, err := g.Engine.Ask(consumer.Cluster, api.Request{Resources: a.Resources, Pool: a.Pool})
	if err != nil {
		return nil, err
	}
	ask.Duration = duration
	ok, err := g.Engine.Allows(terms.Allow, *consumer, ask)
	if err != nil || !ok {
		return nil, api.Errorf(api.CodeForbidden, "the SharingPolicy of %s does not allow it", g.Cluster)
	}
	if offer == nil {
		if terms.OnlyOffers {
			return nil, api.Errorf(api.CodeForbidden, "cluster %s lends by its offers only", g.Cluster).Fix("see: bourse catalog --seller %s", g.Cluster)
		}
		return terms, nil
	}
	if !match.Among(&offer.Signed.Offer.VisibleTo, consumer) {
		return nil, api.Errorf(api.CodeForbidden, "offer %s is not for %s", offer.Key(), consumer.Cluster)
	}
	if ok, err := g.Engine.Allows(offer.Signed.Offer.Accept, *consumer, ask); err != nil || !ok {
		return nil, api.Errorf(api.CodeForbidden, "offer %s is not for this buyer, or not for this request", offer.Key())
	}
	plan := offer.Plan(a.Sale.Plan)
	if !first { // it is renewed: what is left of it may be short
		return terms, plan.AtMost(duration)
	}
	return terms, plan.Lasts(duration)
}
