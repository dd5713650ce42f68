package requests

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/trust"
)

// showFailure shows why a request could not be made, and returns when to try again.
func (r *Controller) showFailure(ctx context.Context, object *api.ResourceRequest, cause error) (ctrl.Result, error) {
	code := api.CodeOf(cause)
	status := object.Status.DeepCopy()
	status.Message = trust.Text(cause.Error())
	final := code == api.CodeInvalid || code == api.CodeTooLarge || code == api.CodeKeyReused // only an edit can help
	if final && status.Reservation == "" {
		status.State = api.Rejected
	}
	for _, condition := range []string{api.ConditionReserved, api.ConditionReady} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionFalse, Reason: string(code),
			Message: status.Message, ObservedGeneration: object.Generation,
		})
	}
	if err := r.writeStatus(ctx, object, *status, corev1.EventTypeWarning, string(code)); err != nil {
		return ctrl.Result{}, err
	}
	// a broker may be added later
	if e, _ := errors.AsType[*api.Error](cause); final && (e == nil || e.Field != "broker") {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: retryAfter}, nil
}
