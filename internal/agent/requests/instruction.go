package requests

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// showInstruction makes the ReservationInstruction of a reservation, beside the request that owns it.
func (r *Controller) showInstruction(
	ctx context.Context, object *api.ResourceRequest, ours *market.Reservation,
) error {
	i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: ours.ID}}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, i, func() error {
		i.Spec = instruction.Spec(ours)
		return controllerutil.SetControllerReference(object, i, r.Scheme())
	})
	if apierrors.IsAlreadyExists(err) { // our cache is behind: the next change shows it
		return nil
	}
	if err != nil {
		return kubeobject.Error(err)
	}
	return kubeobject.Error(instruction.Show(ctx, r.Client, i, &i.Status, ours))
}
