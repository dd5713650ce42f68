package requests

import (
	"context"
	"slices"
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

// signHold checks that a hold is what the wish asked for, records it, and signs and sends the
// assignment, unless the user has yet to confirm it. Errors: BadSignature and KeyChanged if what
// the broker shows cannot be right. Then nothing is signed.
func (b *Borrower) signHold(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, w Wish,
) error {
	t := theirs.Payload
	asked := w.Request
	if ours != nil { // the request may have been edited since: that becomes a change once it is bound
		asked.Duration = &metav1.Duration{Duration: ours.Until.Go().Sub(ours.Created.Go())}
		if ours.Sale == nil { // else the size is the plan's, which may be more than was asked for
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
	asked, offer, err := b.checkPurchase(ctx, theirs, asked)
	if err != nil { // perhaps the seller has another key
		return b.passOver(ctx, theirs, w, err)
	}
	if err := checkHold(t, asked, b.Cluster, b.Market.Now().Go()); err != nil {
		return err
	}
	card, err := b.checkProvider(ctx, theirs, w)
	if err != nil {
		return b.passOver(ctx, theirs, w, err)
	}
	if err := checkHoldTimes(t, offer, card, b.Market.Now().Go()); err != nil {
		return err
	}
	provider, err := trust.Key(ctx, b.Market, t.Provider)
	if err != nil {
		return err
	}
	next, err := newRecord(theirs)
	if err != nil {
		return err
	}
	next.Object, next.Offer = &w.Object, offer
	next.Relend, next.RelendKey = w.Request.Relend, w.Request.RelendKey
	if ours != nil {
		next.Group = ours.Group
		if ours.Assignment != "" { // the request may have been edited since
			next.Relend, next.RelendKey = ours.Relend, ours.RelendKey
		}
	}
	signed := ours != nil && ours.Generation == t.Generation && ours.Assignment != ""
	switch {
	case signed && (ours.Assignment == t.Assignment || b.stillValid(ours.Assignment, provider)):
		next.Assignment = ours.Assignment
	case t.Assignment != "": // signed before, and lost by the Ledger
		if _, err := b.readSigned(ctx, theirs, ours); err != nil {
			return err
		}
		next.Assignment = t.Assignment
	case w.remember, w.Request.Confirm && !w.Confirmed:
		return b.recordState(ctx, theirs, next)
	}
	if next.Assignment == "" {
		next.Assignment, err = b.Key.Sign(api.DocumentAssignment, api.Assignment{
			Protocol: api.Protocol, Reservation: theirs.ID, Issued: b.issueTime(ours), Generation: t.Generation,
			Consumer: b.Cluster, ConsumerKey: b.Key.Public().Fingerprint().String(),
			Provider: t.Provider, ProviderKey: provider.Fingerprint().String(),
			Pool: t.Pool, Slice: t.Slice, Resources: t.Resources,
			Until: utcSeconds(t.Until), Expires: utcSeconds(t.Expires()), Sale: t.Sale, Begins: next.From.Meta(),
			Relend: next.Relend, RelendKey: next.RelendKey,
		})
		if err != nil {
			return err
		}
	}
	if err := b.recordState(ctx, theirs, next); err != nil { // recorded before it is sent
		return err
	}
	b.answered.Store(theirs.ID, t.Fence)
	confirmed, err := b.Broker.Confirm(ctx, theirs.ID, next.Assignment)
	if err != nil { // the caller tries again
		b.answered.Store(theirs.ID, api.Fence{})
		return transport.IgnoreGone(err)
	}
	b.answered.Store(theirs.ID, confirmed.Payload.Fence)
	return nil
}

// issueTime returns the time of signing of an assignment that replaces ours, nil for none. It is
// now, but never earlier than that of ours.
func (b *Borrower) issueTime(ours *market.Reservation) metav1.Time {
	now := b.Market.Now().Go()
	if ours != nil {
		if before := issuedAt(ours); before.After(now) {
			now = before
		}
	}
	return utcSeconds(metav1.NewTime(now))
}

// stillValid reports whether an unsent assignment was signed with our present key and names the
// provider's present key. Otherwise it is signed again.
func (b *Borrower) stillValid(assignment string, provider clusterkey.PublicKey) bool {
	var a api.Assignment
	err := clusterkey.Verify(assignment, api.DocumentAssignment, b.Key.Public(), &a)
	return err == nil && a.ProviderKey == provider.Fingerprint().String()
}

// utcSeconds returns a time that signs the same everywhere: times read from JSON are local.
func utcSeconds(t metav1.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// checkProvider returns the provider's card, or why this cluster agrees nothing with that provider.
func (b *Borrower) checkProvider(
	ctx context.Context, theirs *transport.Reservation, w Wish,
) (*api.Card, error) {
	card, err := b.meetProvider(ctx, theirs)
	if err != nil || theirs.Payload.Assignment != "" {
		return card, err
	}
	return card, b.checkCard(ctx, card, w)
}

// checkCard returns why this cluster cannot use a provider with this card for a wish, nil if it can. Errors: those
// of Check and Reach.
func (b *Borrower) checkCard(ctx context.Context, card *api.Card, w Wish) error {
	if w.Check != nil {
		if err := w.Check(ctx, card); err != nil {
			return err
		}
	}
	if b.Reach == nil {
		return nil
	}
	return b.Reach(ctx, card, w.Request)
}

// checkHoldTimes returns an error if a hold waits for longer than the provider's admin may take to
// approve it. The signed offer says how long that is or, without an offer, the signed card.
func checkHoldTimes(t api.Reservation, offer *market.Offer, card *api.Card, now time.Time) error {
	within := card.ApproveWithin
	if offer != nil {
		within = offer.Signed.Offer.ApproveWithin
	}
	for _, end := range []metav1.Time{t.HeldUntil, t.ApproveBy} {
		if end.Sub(now) > market.Patience(within) {
			return api.Errorf(api.CodeBadSignature,
				"the broker answers with a hold that lasts longer than an approval may take").
				Fix("nothing was signed; ask the broker's operator")
		}
	}
	return nil
}

// mostPassedOver is how many providers one ask passes over at most. The next ask continues.
const mostPassedOver = 64

// passOver makes the broker hold on the next best provider, if this cluster cannot use the present
// one, and asks again. It returns any other cause, and each one after something was signed,
// unchanged. Errors: BadSignature if the broker names a provider again that was passed over.
func (b *Borrower) passOver(ctx context.Context, theirs *transport.Reservation, w Wish, cause error) error {
	reason, known := refusals[api.CodeOf(cause)]
	if !known || theirs.Payload.Assignment != "" {
		return cause
	}
	t := theirs.Payload
	at := [2]string{theirs.ID, t.Provider}
	switch {
	case slices.Contains(w.passed, at):
		return api.Errorf(api.CodeBadSignature, "the broker answers again with provider %.63s, which was passed over", t.Provider).
			Fix("nothing was signed; ask the broker's operator")
	case len(w.passed) == mostPassedOver:
		return cause // the caller tries again
	}
	w.passed = append(w.passed, at)
	b.Log.Info("passed over", "reservation", theirs.ID, "provider", t.Provider, "reason", reason, "cause", cause)
	w.part, w.remember = nil, false
	refusal := api.Refusal{Generation: t.Generation, Reason: reason, Message: trust.Text(cause.Error())}
	_, err := b.Broker.Refuse(ctx, theirs.ID, refusal)
	if transport.IgnoreGone(err) != nil {
		return err
	}
	return b.Ask(ctx, w)
}

// meetProvider returns the provider's card, and pins its key at first contact.
func (b *Borrower) meetProvider(ctx context.Context, theirs *transport.Reservation) (*api.Card, error) {
	card, _, err := b.Trust.Meet(ctx, b.Market, theirs.Payload.ProviderCard, theirs.Payload.Provider)
	return card, err
}

// checkHold returns in what a hold is no answer to the request, nil if it is one.
func checkHold(t api.Reservation, r api.Request, cluster string, now time.Time) error {
	pool, duration := r.Pool, api.DurationOf(r.Duration)
	if pool == "" {
		pool = api.GeneralPool
	}
	for _, demand := range []struct {
		holds bool
		wrong string
	}{
		{t.Consumer == cluster, "for another consumer"},
		{t.Provider != "" && t.Provider != cluster, "on no other cluster"},
		{r.Target == "" || t.Provider == r.Target, "on another provider than the target"},
		{!slices.Contains(r.Exclude, t.Provider), "on an excluded provider"},
		{len(r.StickTo) == 0 || slices.Contains(r.StickTo, t.Provider), "on a provider that does not have its volumes"},
		{t.Pool == pool, "in another pool"},
		{equality.Semantic.DeepEqual(t.Resources, nonZero(r.Resources)), "of another size"},
		{t.Slice == market.SliceOf(api.Assignment{Consumer: cluster, Provider: t.Provider, Pool: t.Pool,
			RelendKey: r.RelendKey}), "in a wrong slice"},
		{t.Until.After(now) && t.Until.Sub(now) <= duration+time.Minute, "for another time"},
		{t.Created.Sub(now) <= market.SkewGrace && (t.Until.Sub(t.Created.Time)-duration).Abs() <= time.Minute,
			"from another time"},
	} {
		if !demand.holds {
			return api.Errorf(api.CodeBadSignature, "the broker answers with a hold %s", demand.wrong).
				Fix("nothing was signed; ask the broker's operator")
		}
	}
	return nil
}

// nonZero returns the amounts that are not 0: the broker holds no others.
func nonZero(r api.Resources) api.Resources {
	size, err := amounts.ParseRequest("resources", r)
	if err != nil {
		return r
	}
	return size.Resources()
}
