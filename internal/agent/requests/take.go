package requests

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// take checks that a hold is what the wish asked for, remembers it, and signs and sends
// the assignment, unless its user has yet to confirm it.
// Errors: BadSignature and KeyChanged when the broker shows something that cannot be right: then
// nothing is signed.
func (b *Borrower) take(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, w Wish) error {
	t := theirs.Payload
	asked := w.Request
	if ours != nil { // it may have been edited since; that is for when it is bound
		asked.Duration = &metav1.Duration{Duration: ours.Until.Go().Sub(ours.Created.Go())}
		if ours.Sale == nil { // else it is what the plan has, which may be more than was asked for
			asked.Resources = ours.Size.Resources()
		}
		if asked.Purchase != nil && ours.Sale != nil {
			asked.Purchase = asked.Purchase.DeepCopy()
			asked.Purchase.Units, asked.Purchase.Digest = ours.Sale.Units, ours.Sale.Offer
		}
	}
	if w.part != nil {
		asked.Resources = w.part
	}
	asked, offer, err := b.bought(ctx, theirs, asked)
	if err != nil { // perhaps that of the seller's key
		return b.passOver(ctx, theirs, w, err)
	}
	if err := answers(t, asked, b.Cluster, b.Market.Now().Go()); err != nil {
		return err
	}
	card, err := b.usable(ctx, theirs, w.Request)
	if err != nil {
		return b.passOver(ctx, theirs, w, err)
	}
	if err := patient(t, offer, card, b.Market.Now().Go()); err != nil {
		return err
	}
	provider, err := trust.Key(ctx, b.Market, t.Provider)
	if err != nil {
		return err
	}
	next, err := record(theirs)
	if err != nil {
		return err
	}
	next.Object, next.Offer = &w.Object, offer
	if ours != nil {
		next.Group = ours.Group
	}
	switch {
	case ours != nil && ours.Generation == t.Generation && ours.Assignment != "" && (ours.Assignment == t.Assignment || b.stands(ours.Assignment, provider)):
		next.Assignment = ours.Assignment
	case t.Assignment != "": // signed in a life that the Ledger has forgotten
		if _, err := b.signed(ctx, theirs, ours); err != nil {
			return err
		}
		next.Assignment = t.Assignment
	case w.remember, w.Request.Confirm && !w.Confirmed:
		return b.note(ctx, theirs, next)
	}
	if next.Assignment == "" {
		next.Assignment, err = b.Key.Sign(api.DocumentAssignment, api.Assignment{
			Protocol: api.Protocol, Reservation: theirs.ID, Issued: b.issue(ours), Generation: t.Generation,
			Consumer: b.Cluster, ConsumerKey: b.Key.Public().Fingerprint().String(),
			Provider: t.Provider, ProviderKey: provider.Fingerprint().String(),
			Pool: t.Pool, Slice: t.Slice, Resources: t.Resources,
			Until: utc(t.Until), Expires: utc(t.Expires()), Sale: t.Sale, Begins: next.From.Meta(),
		})
		if err != nil {
			return err
		}
	}
	if err := b.note(ctx, theirs, next); err != nil { // what is signed is remembered first
		return err
	}
	b.answered.put(theirs.ID, t.Fence)
	confirmed, err := b.Broker.Confirm(ctx, theirs.ID, next.Assignment)
	if err != nil { // whoever called tries again
		b.answered.forget(theirs.ID)
		return unlessMovedOn(err)
	}
	b.answered.put(theirs.ID, confirmed.Payload.Fence)
	return nil
}

// issue is when an assignment is signed that replaces that of ours, nil if none: now, and never before that.
func (b *Borrower) issue(ours *market.Reservation) metav1.Time {
	now := b.Market.Now().Go()
	if ours != nil {
		if before := issued(ours); before.After(now) {
			now = before
		}
	}
	return utc(metav1.NewTime(now))
}

// stands says whether an assignment that nobody has seen yet is by the key that this cluster has, and names the one that its
// provider has: else it is signed anew.
func (b *Borrower) stands(assignment string, provider clusterkey.PublicKey) bool {
	var a api.Assignment
	err := clusterkey.Verify(assignment, api.DocumentAssignment, b.Key.Public(), &a)
	return err == nil && a.ProviderKey == provider.Fingerprint().String()
}

// utc makes a time read from JSON, which is local, one that signs the same everywhere.
func utc(t metav1.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// usable says why nothing is agreed with a provider, or nil.
func (b *Borrower) usable(ctx context.Context, theirs *transport.Reservation, asked api.Request) (*api.Card, error) {
	card, err := b.meet(ctx, theirs)
	if err != nil || b.Reach == nil || theirs.Payload.Assignment != "" {
		return card, err
	}
	return card, b.Reach(ctx, card, asked)
}

// patient says why a hold waits for longer than its provider says, signed, that a person there takes to approve it; nil if it
// does not. The offer says it or, where there is none, the card.
func patient(t api.Reservation, offer *market.Offer, card *api.Card, now time.Time) error {
	within := card.ApproveWithin
	if offer != nil {
		within = offer.Signed.Offer.ApproveWithin
	}
	for _, end := range []metav1.Time{t.HeldUntil, t.ApproveBy} {
		if end.Sub(now) > market.Patience(within) {
			return api.Errorf(api.CodeBadSignature, "the broker answers with a hold held for longer than anyone decides").Fix("nothing was signed; ask the broker's operator")
		}
	}
	return nil
}

// passOver lets the broker hold on the next best provider, where the one it holds on is of no use to this cluster.
// Another error, or one after something was signed, comes back as it is.
func (b *Borrower) passOver(ctx context.Context, theirs *transport.Reservation, w Wish, cause error) error {
	reason, known := refusals[api.CodeOf(cause)]
	if !known || theirs.Payload.Assignment != "" {
		return cause
	}
	b.Log.Info("passed over", "reservation", theirs.ID, "provider", theirs.Payload.Provider, "reason", reason, "cause", cause)
	w.part, w.remember = nil, false
	_, err := b.Broker.Refuse(ctx, theirs.ID, api.Refusal{Generation: theirs.Payload.Generation, Reason: reason, Message: trust.Text(cause.Error())})
	if unlessMovedOn(err) != nil {
		return err
	}
	return b.Ask(ctx, w)
}

// meet opens the provider's card and pins its key at first contact.
func (b *Borrower) meet(ctx context.Context, theirs *transport.Reservation) (*api.Card, error) {
	card, _, err := b.Trust.Meet(ctx, b.Market, theirs.Payload.ProviderCard, theirs.Payload.Provider)
	return card, err
}

// answers says in what a hold is not an answer to the request; nil if it is.
func answers(t api.Reservation, r api.Request, cluster string, now time.Time) error {
	pool, duration := r.Pool, durationOf(r)
	if pool == "" {
		pool = api.GeneralPool
	}
	for _, demand := range []struct {
		holds bool
		what  string
	}{
		{t.Consumer == cluster, "for another consumer"},
		{t.Provider != "" && t.Provider != cluster, "on no other cluster"},
		{r.Target == "" || t.Provider == r.Target, "on another provider than the target"},
		{!slices.Contains(r.Exclude, t.Provider), "on an excluded provider"},
		{len(r.StickTo) == 0 || slices.Contains(r.StickTo, t.Provider), "on a provider that has not its volumes"},
		{t.Pool == pool, "in another pool"},
		{equality.Semantic.DeepEqual(t.Resources, positive(r.Resources)), "of another size"},
		{t.Slice == market.SliceName(cluster, t.Provider, t.Pool), "in a wrong slice"},
		{t.Until.After(now) && t.Until.Sub(now) <= duration+time.Minute, "for another time"},
		{t.Created.Sub(now) <= market.SkewGrace && (t.Until.Sub(t.Created.Time)-duration).Abs() <= time.Minute, "from another time"},
	} {
		if !demand.holds {
			return api.Errorf(api.CodeBadSignature, "the broker answers with a hold %s", demand.what).
				Fix("nothing was signed; ask the broker's operator")
		}
	}
	return nil
}

// durationOf is how long a request asks for.
func durationOf(r api.Request) time.Duration {
	if r.Duration != nil {
		return r.Duration.Duration
	}
	d, _ := time.ParseDuration(api.DefaultDuration)
	return d
}

// positive is what a reservation can have of what was asked: amounts of 0 are not held.
func positive(r api.Resources) api.Resources {
	size, err := market.Need("resources", r)
	if err != nil {
		return r
	}
	return size.Resources()
}
