package gate

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
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

// Approvals is the controller that carries out the acts of admins on ProviderInstructions, and answers them.
type Approvals struct {
	client.Client
	Gate *Gate
	// Events receives each answer: what is refused has its object, and the answer there, for a moment only. May be nil.
	Events events.EventRecorder
}

// Control starts the controller of ProviderInstructions.
func (a *Approvals) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("approval").For(&api.ProviderInstruction{}).Complete(a)
}

// Reconcile carries out and answers the acts on an instruction that it has not answered yet, a refusal first.
func (a *Approvals) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.ProviderInstruction
	if err := a.Get(ctx, at.NamespacedName, &object); err != nil {
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	for _, is := range []act.Act{instruction.Refuse, instruction.Approve} {
		value, given := object.Annotations[is.Annotation()]
		if !given {
			continue
		}
		record, err := a.Gate.readOwn(ctx, object.Name)
		if err != nil {
			return ctrl.Result{}, transport.IgnoreGone(err) // it goes away
		}
		order := is.Decide(value, instruction.ApprovalDigest(&object, record), object.Status.Answered[is.Name])
		if order.Step != act.Nothing {
			return ctrl.Result{}, a.answer(ctx, &object, is, order, record.Generation) // its write leads here again
		}
	}
	return ctrl.Result{}, nil
}

// answer carries out an order about a generation, and answers it. Errors: those after which another try may help.
func (a *Approvals) answer(ctx context.Context, object *api.ProviderInstruction, is act.Act, order act.Order,
	generation int64) error {
	var failed error
	switch {
	case order.Step == act.CarryOut && is == instruction.Refuse:
		failed = a.Gate.Deny(ctx, object.Name, generation, order.Text)
	case order.Step == act.CarryOut:
		failed = a.Gate.Approve(ctx, object.Name, generation)
	}
	answer, err := is.Answer(object, order, failed)
	if err != nil {
		return err
	}
	answer.Type = api.ConditionAnswered
	shown := object.DeepCopy()
	err = instruction.AnswerPart.Write(ctx, a.Client, shown, &shown.Status,
		api.InstructionStatus{Answered: is.Note(object.Status.Answered, order), Conditions: []metav1.Condition{answer}})
	if apierrors.IsConflict(err) {
		return nil // the copy is old: the newer one leads here again
	}
	if err == nil {
		act.Tell(a.Events, object, answer)
	}
	return kubeobject.Error(err)
}
