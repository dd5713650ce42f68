package gate

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// maxDuration is the longest time for which anything is lent, with some room for clocks that differ.
const maxDuration = api.LongestDuration + time.Hour

// verifyAssignment returns the assignment that the consumer signed. Errors: BadSignature unless the
// consumer signed it for this cluster, for now, and for the reservation that the broker shows.
func (g *Gate) verifyAssignment(
	theirs *transport.Reservation, card *api.Card, keys ...clusterkey.PublicKey,
) (api.Assignment, error) {
	var a api.Assignment
	key, err := trust.Verified(theirs.Payload.Assignment, api.DocumentAssignment, &a, keys...)
	if err != nil {
		return a, err
	}
	if a.Protocol > api.Protocol {
		return a, api.OtherProtocol(api.CodeBadSignature, "the assignment", a.Protocol)
	}
	now, held := g.Market.Now().Go(), theirs.Payload.State == api.Held
	for _, demand := range []struct {
		holds bool
		wrong string
	}{
		{a.Protocol >= 1, "names no protocol"},
		{a.Reservation == theirs.ID && a.Generation >= 1, "is of another reservation"},
		{market.ValidCluster("reservation", a.Reservation) == nil, "names an invalid reservation"},
		{a.Consumer == card.Cluster && a.ConsumerKey == key.Fingerprint().String(), "is of another consumer"},
		{a.Provider == g.Cluster && g.isOwnKey(a.ProviderKey), "is for another provider"},
		{a.Slice == market.SliceOf(a), "names a wrong slice"},
		{now.Before(a.Until.Time), "is for a time that is over"},
		{a.Until.Sub(now) <= maxDuration, "is for longer than anything is lent"},
		{!held || now.Before(a.Expires.Add(market.SkewGrace)), "has expired"},
		{a.Expires.Sub(now) <= market.MaxApproval+market.DecideTime+market.SkewGrace, "expires too late"},
		{a.Sale == nil || !held || a.Begins.Sub(now) <= market.DecideTime+market.SkewGrace, "begins at another time"},
	} {
		if !demand.holds {
			return a, api.Errorf(api.CodeBadSignature, "the assignment %s", demand.wrong)
		}
	}
	return a, nil
}

// findOffer returns the offer that an assignment names, nil if it names none: as the Ledger has it
// or, if the Ledger lost it, as this cluster signed it. The size must be what the plan sells.
// Whether any is left, the market checks. Errors: Conflict, BadSignature.
func (g *Gate) findOffer(
	ctx context.Context, theirs *transport.Reservation, a api.Assignment, size amounts.List,
) (offer *market.Offer, err error) {
	if a.Sale == nil {
		return nil, nil
	}
	if err := g.Market.Read(ctx, func(s *market.State) { offer = s.Offer(a.Sale.Offer) }); err != nil {
		return nil, err
	}
	if offer == nil && theirs.Payload.Offer != "" {
		keys, _ := trust.Keys(ctx, g.Market, g.Cluster) // none, in a Ledger that lost everything
		if offer, err = trust.Offer(theirs.Payload.Offer, append(keys, g.Key.Public())...); err != nil {
			return nil, err
		}
	}
	if offer == nil || offer.Digest != a.Sale.Offer || offer.Signed.Seller != g.Cluster {
		return nil, api.Errorf(api.CodeConflict, "cluster %s does not have the offer %.60s", g.Cluster, a.Sale.Offer)
	}
	return offer, offer.Covers(*a.Sale, a.Pool, size)
}

// isOwnKey reports whether a fingerprint is of a key that this cluster has or had.
func (g *Gate) isOwnKey(fingerprint string) bool {
	return fingerprint == g.Key.Public().Fingerprint().String() || slices.Contains(g.Former, fingerprint)
}

// checkPolicy returns why the SharingPolicy, or the offer if there is one, does not allow an
// assignment: by consumer, duration and expressions. How much fits, the market checks. first says
// that the assignment changes no bound reservation. It returns the terms that allow it.
func (g *Gate) checkPolicy(
	a api.Assignment, offer *market.Offer, first bool, consumer *api.Card,
) (*market.Terms, error) {
	l := g.Market.View().Listing(g.Cluster)
	if l == nil || l.Measured == nil {
		return nil, api.Errorf(api.CodeUnavailable, "cluster %s has not measured itself yet", g.Cluster)
	}
	if l.Measured.Terms == nil || !session.IsShownAt(g.via, l.Measured.Brokers) {
		return nil, api.Errorf(api.CodeNotFound, "cluster %s shares nothing at this broker", g.Cluster)
	}
	terms := l.Measured.Terms
	if a.Relend && !terms.Relend {
		return nil, api.Errorf(api.CodeForbidden, "the SharingPolicy of %s does not let consumers lend on", g.Cluster)
	}
	if !match.Visible(terms, consumer) {
		return nil, api.Errorf(api.CodeForbidden, "cluster %s does not share with %s", g.Cluster, consumer.Cluster)
	}
	duration := a.Until.Sub(g.Market.Now().Go())
	if terms.MaxDuration != nil && duration > terms.MaxDuration.Duration+time.Minute {
		return nil, api.Errorf(api.CodeForbidden, "the reservation is longer than the SharingPolicy's maxDuration, %s",
			terms.MaxDuration.Duration)
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
			return nil, api.Errorf(api.CodeForbidden, "cluster %s lends by its offers only", g.Cluster).
				FixBy("see", "bourse", "catalog", "--seller", g.Cluster)
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
	if !first { // an extension: the time that is left may be shorter than the plan's least
		return terms, plan.AtMost(duration)
	}
	return terms, plan.Lasts(duration)
}

// approvalTime returns how long an admin here may take to approve an assignment, nil if none need
// approve it. The offer says so or, without an offer, the terms of the SharingPolicy. Errors:
// Forbidden for a change of a bound reservation that would need approval.
func (g *Gate) approvalTime(
	terms *market.Terms, offer *market.Offer, bound bool,
) (*metav1.Duration, error) {
	within := terms.ApproveWithin
	if offer != nil {
		within = offer.Signed.Offer.ApproveWithin
	}
	if within != nil && bound {
		return nil, api.Errorf(api.CodeForbidden,
			"an admin of %s approves each reservation, so a bound one cannot grow", g.Cluster).
			Fix("make another reservation for the rest")
	}
	return within, nil
}

// checkTimes returns what is wrong with the times of an assignment, where an admin may take this
// long to approve it; nothing is wrong: "".
func (g *Gate) checkTimes(a api.Assignment, within *metav1.Duration) string {
	switch now, patience := g.Market.Now().Go(), market.Patience(within); {
	case a.Expires.Sub(now) > patience:
		return "expires too late"
	case a.Sale != nil && now.Sub(a.Begins.Time) > patience:
		return "begins at another time"
	}
	return ""
}
