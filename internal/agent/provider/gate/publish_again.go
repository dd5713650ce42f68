package gate

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// PublishAgain is the act by which an admin publishes an Offer that a broker took off sale.
var PublishAgain = act.Act{Name: "publish-again", Done: "PublishedAgain", Kind: "offer", TakesTime: true}

// answer carries out and answers the annotation of an Offer, if it has not answered it yet. The answer is written first,
// so that an old copy of the object leads to nothing. isOld reports that it is one: the newer copy leads here again.
func (o *Offers) answer(ctx context.Context, object *api.Offer) (isOld bool, err error) {
	value, given := object.Annotations[PublishAgain.Annotation()]
	if !given || object.DeletionTimestamp != nil {
		return false, nil
	}
	order, failed := PublishAgain.Decide(value, "", object.Status.Answered[PublishAgain.Name]), error(nil)
	if order.Step == act.Nothing {
		if o.offSale.unorder(object.Name, order.Value) {
			o.PublishAgain(object.Name)
		}
		return false, nil
	}
	if object.Spec.Draft {
		failed = api.Errorf(api.CodeForbidden, "it is a draft").Fix("set draft to false")
	}
	answer, err := PublishAgain.Answer(object, order, failed)
	if err != nil {
		return false, err
	}
	answer.Type, answer.ObservedGeneration = api.ConditionPublishedAgain, object.Generation
	next := object.Status.DeepCopy()
	next.Answered = PublishAgain.Note(next.Answered, order)
	meta.SetStatusCondition(&next.Conditions, answer)
	carriesOut := order.Step == act.CarryOut && failed == nil
	if carriesOut {
		o.offSale.order(object.Name, order.Value)
	}
	err = kubeobject.ReplaceStatus(ctx, o.Client, object, &object.Status, *next)
	if apierrors.IsConflict(err) {
		o.offSale.unorder(object.Name, order.Value)
		return true, nil
	}
	if err != nil {
		return false, kubeobject.Error(err)
	}
	if carriesOut && o.offSale.unorder(object.Name, order.Value) {
		o.PublishAgain(object.Name)
	}
	act.Tell(o.Events, object, answer)
	return false, nil
}
