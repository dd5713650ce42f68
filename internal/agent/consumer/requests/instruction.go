package requests

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// showInstruction makes the ReservationInstruction of a reservation, beside the request that owns it.
func (r *Controller) showInstruction(
	ctx context.Context, object *api.ResourceRequest, record *market.Reservation,
) error {
	i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: record.ID}}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, i, func() error {
		i.Spec = instruction.Spec(record)
		return controllerutil.SetControllerReference(object, i, r.Scheme())
	})
	if err != nil { // if it exists already, our cache is behind: the next change shows it
		return kubeobject.Error(client.IgnoreAlreadyExists(err))
	}
	return kubeobject.Error(instruction.Show(ctx, r.Client, i, &i.Status, record))
}
