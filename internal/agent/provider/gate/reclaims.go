package gate

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Reclaims is the controller by which an admin takes contracts back with an annotation.
type Reclaims struct {
	client.Client
	Gate *Gate
	// Namespace is that of the contracts that this cluster sold.
	Namespace string
	// Events receives each answer. May be nil.
	Events events.EventRecorder
}

// Control starts the controller.
func (s *Reclaims) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("reclaim").For(&api.Contract{}).Complete(s)
}

// Reconcile carries out and answers a reclaim of a contract, if it has not answered it yet.
func (s *Reclaims) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.Contract
	if at.Namespace != s.Namespace { // another one's is what this cluster bought
		return ctrl.Result{}, nil
	}
	if err := s.Get(ctx, at.NamespacedName, &object); err != nil {
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	is := contract.Reclaim
	value, given := object.Annotations[is.Annotation()]
	if !given {
		return ctrl.Result{}, nil
	}
	record, failed := s.Gate.readOwn(ctx, object.Name)
	if failed != nil && api.CodeOf(failed) != api.CodeNotFound {
		return ctrl.Result{}, failed
	}
	digest := "" // the Ledger forgot it, or this cluster is its buyer
	if failed == nil {
		digest = contract.ReclaimDigest(&object, record)
	}
	order := is.Decide(value, digest, object.Status.Answered[is.Name])
	switch order.Step {
	case act.Nothing:
		return ctrl.Result{}, nil
	case act.CarryOut:
		_, failed = s.Gate.reclaim(ctx, record)
	}
	answer, err := is.Answer(&object, order, failed)
	if err != nil {
		return ctrl.Result{}, err
	}
	answer.Type, answer.ObservedGeneration = api.ConditionReclaimed, object.Generation
	next := object.Status.DeepCopy()
	next.Answered = is.Note(next.Answered, order)
	meta.SetStatusCondition(&next.Conditions, answer)
	err = kubeobject.ReplaceStatus(ctx, s.Client, &object, &object.Status, *next)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // the copy is old: the newer one leads here again
	}
	if err == nil {
		act.Tell(s.Events, &object, answer)
	}
	return ctrl.Result{}, kubeobject.Error(err)
}
