package provider

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/market"
)

// Instructions shows what the gate accepted as ProviderInstruction objects. They are a
// projection of the Ledger: editing or deleting one changes nothing but the picture.
type Instructions struct {
	client.Client
	Namespace string
}

// Show makes the object of a record what the record says; what is over, or not yet committed, has none.
func (s *Instructions) Show(ctx context.Context, ours *market.Reservation) error {
	i := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: ours.ID}}
	if ours.State == api.Held {
		return nil
	}
	if ours.State.Over() {
		return client.IgnoreNotFound(s.Delete(ctx, i))
	}
	_, err := controllerutil.CreateOrPatch(ctx, s.Client, i, func() error {
		i.Spec = instruction.Spec(ours)
		return nil
	})
	if apierrors.IsAlreadyExists(err) { // our cache lags: the next change shows it
		return nil
	}
	if err != nil {
		return err
	}
	return instruction.Show(ctx, s.Client, i, &i.Status, i.Generation, ours, func() client.Object { return i.DeepCopy() })
}
