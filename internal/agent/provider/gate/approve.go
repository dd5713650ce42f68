package gate

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Annotations with which an admin answers a ProviderInstruction that waits for approval. A no
// counts before a yes.
const (
	// ApproveAnnotation with value "true" approves it.
	ApproveAnnotation = "bourse.dev/approve"
	// RefuseAnnotation refuses it. Its value is what the consumer reads; it may be empty.
	RefuseAnnotation = "bourse.dev/refuse"
)

// Approve accepts a reservation that waits for an admin's approval. generation is the one that the
// admin saw; 0 is any. Errors: NotFound; Conflict where it does not wait, or has another
// generation.
func (g *Gate) Approve(ctx context.Context, id string, generation int64) error {
	ours, err := g.readOwn(ctx, id)
	if err != nil {
		return err
	}
	acceptance := ours.Acceptance
	if ours.AwaitsApproval() {
		expires := metav1.NewTime(ours.HeldUntil.Go())
		acceptance, err = g.signAcceptance(ours.ID, ours.Generation, ours.Consumer, ours.Assignment, expires)
		if err != nil {
			return err
		}
	}
	_, err = g.Market.Do(ctx, market.Approve{ID: id, Generation: cmp.Or(generation, ours.Generation),
		Acceptance: acceptance})
	return err // the Ledger's change makes Sync send it
}

// Deny refuses a reservation that waits for an admin's approval. reason is what the consumer reads.
// Errors: as Approve.
func (g *Gate) Deny(ctx context.Context, id string, generation int64, reason string) error {
	ours, err := g.readOwn(ctx, id)
	if err != nil {
		return err
	}
	_, err = g.Market.Do(ctx, market.Deny{ID: id, Generation: cmp.Or(generation, ours.Generation),
		Message: trust.Text(reason)})
	return err
}

// sendDenial refuses at the broker what an admin denied here, or did not approve in time.
func (g *Gate) sendDenial(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	refusal := api.Refusal{Generation: ours.Generation, Reason: ours.Reason, Message: ours.Message}
	_, err := g.Broker.Refuse(ctx, theirs.ID, refusal)
	return transport.IgnoreGone(err)
}

// Approvals is the controller that reads admins' answers from the annotations of ProviderInstructions.
type Approvals struct {
	client.Client
	Gate *Gate
}

// Control starts the controller of ProviderInstructions.
func (a *Approvals) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("approval").For(&api.ProviderInstruction{}).Complete(a)
}

// Reconcile approves or denies what an instruction shows, if that still waits.
func (a *Approvals) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.ProviderInstruction
	if err := a.Get(ctx, at.NamespacedName, &object); err != nil {
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	reason, no := object.Annotations[RefuseAnnotation]
	yes := object.Annotations[ApproveAnnotation] == "true"
	if !no && !yes {
		return ctrl.Result{}, nil
	}
	ours, err := a.Gate.readOwn(ctx, object.Name)
	if err != nil || !ours.AwaitsApproval() || object.Spec.Assignment != clusterkey.Digest(ours.Assignment).String() {
		return ctrl.Result{}, nil
	}
	if no {
		err = a.Gate.Deny(ctx, ours.ID, ours.Generation, reason)
	} else {
		err = a.Gate.Approve(ctx, ours.ID, ours.Generation)
	}
	return ctrl.Result{}, transport.IgnoreGone(err)
}
