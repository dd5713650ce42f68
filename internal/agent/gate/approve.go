package gate

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Annotations on a ProviderInstruction that waits for approval: a person's word on what it says. A no goes before a yes.
const (
	// ApproveAnnotation with value "true" approves it.
	ApproveAnnotation = "bourse.dev/approve"
	// RefuseAnnotation says no; its value is what the other side reads, and may be empty.
	RefuseAnnotation = "bourse.dev/refuse"
)

// byHand says whether a person here has to approve an assignment: as its offer says or, where it is from none, the SharingPolicy.
// It returns how long that may take, nil where nobody need. What is bound already does not grow where a person would have to say so.
// Errors: Forbidden.
func (g *Gate) byHand(offer *market.Offer, bound bool) (within *metav1.Duration, err error) {
	if l := g.Market.View().Listing(g.Cluster); offer != nil {
		within = offer.Signed.Offer.ApproveWithin
	} else if l != nil && l.Measured != nil && l.Measured.Terms != nil {
		within = l.Measured.Terms.ApproveWithin
	}
	if within != nil && bound {
		return nil, api.Errorf(api.CodeForbidden, "a person at %s approves what is lent here, and what is bound grows without one", g.Cluster).
			Fix("make another reservation for what is to be more")
	}
	return within, nil
}

// late says in what an assignment waits for longer, or begins longer ago, than it may, where a person may take so long to approve it;
// empty if in nothing.
func (g *Gate) late(a api.Assignment, within *metav1.Duration) string {
	switch now, patience := g.Market.Now().Go(), market.Patience(within); {
	case a.Expires.Sub(now) > patience:
		return "expires too late"
	case a.Sale != nil && now.Sub(a.Begins.Time) > patience:
		return "begins at another time"
	}
	return ""
}

// Approve is the word of a person here: what waits for it is accepted. generation is that of what they saw; 0: whatever it is.
// Errors: NotFound; Conflict where it does not wait, or is not what they saw.
func (g *Gate) Approve(ctx context.Context, id string, generation int64) error {
	ours, err := g.record(ctx, id)
	if err != nil {
		return err
	}
	acceptance := ours.Acceptance
	if ours.AwaitsApproval() {
		if acceptance, err = g.accept(ours.ID, ours.Generation, ours.Consumer, ours.Assignment, metav1.NewTime(ours.HeldUntil.Go())); err != nil {
			return err
		}
	}
	_, err = g.Market.Do(ctx, market.Approve{ID: id, Generation: cmp.Or(generation, ours.Generation), Acceptance: acceptance})
	return err // its change makes the broker hear of it
}

// Deny is the same person's no; reason is what the other side reads. Errors: as Approve's.
func (g *Gate) Deny(ctx context.Context, id string, generation int64, reason string) error {
	ours, err := g.record(ctx, id)
	if err != nil {
		return err
	}
	_, err = g.Market.Do(ctx, market.Deny{ID: id, Generation: cmp.Or(generation, ours.Generation), Message: trust.Text(reason)})
	return err
}

// record is what the Ledger says of a reservation of this cluster's capacity. Errors: NotFound.
func (g *Gate) record(ctx context.Context, id string) (ours *market.Reservation, err error) {
	if err = g.Market.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err == nil && (ours == nil || ours.Provider != g.Cluster) {
		err = api.Errorf(api.CodeNotFound, "nobody has asked for reservation %.80q here", id).Fix("see what waits: bourse approvals")
	}
	return ours, err
}

// deny tells the broker of a no that a person here, or time, has said to what it still holds.
func (g *Gate) deny(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	_, err := g.Broker.Refuse(ctx, theirs.ID, api.Refusal{Generation: ours.Generation, Reason: ours.Reason, Message: ours.Message})
	return unlessGone(err)
}

// recall takes an approval back into a Ledger that lost it: our own signature says that it was given.
func (g *Gate) recall(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	var a api.Acceptance
	err := clusterkey.Verify(theirs.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &a)
	if err != nil || a.Reservation != ours.ID || a.Assignment != clusterkey.Digest(ours.Assignment).String() {
		g.Log.Warn("the broker says that this cluster accepted what nobody here has approved: not believed", "reservation", ours.ID, "error", err)
		return nil
	}
	_, err = g.Market.Do(ctx, market.Approve{ID: ours.ID, Generation: ours.Generation, Acceptance: theirs.Payload.Acceptance})
	return err // its change brings us here again
}

// Approvals is the controller by which ProviderInstructions are approved and refused: by kubectl, by GitOps.
type Approvals struct {
	client.Client
	Gate *Gate
}

// Reconcile obeys the annotations of an instruction that waits, if it still shows what waits.
func (a *Approvals) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.ProviderInstruction
	if err := a.Get(ctx, at.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	reason, no := object.Annotations[RefuseAnnotation]
	yes := object.Annotations[ApproveAnnotation] == "true"
	if !no && !yes {
		return ctrl.Result{}, nil
	}
	ours, err := a.Gate.record(ctx, object.Name)
	if err != nil || !ours.AwaitsApproval() || object.Spec.Assignment != clusterkey.Digest(ours.Assignment).String() {
		return ctrl.Result{}, nil
	}
	if no {
		err = a.Gate.Deny(ctx, ours.ID, ours.Generation, reason)
	} else {
		err = a.Gate.Approve(ctx, ours.ID, ours.Generation)
	}
	return ctrl.Result{}, unlessGone(err)
}
