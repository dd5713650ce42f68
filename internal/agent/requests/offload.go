package requests

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

// CheckOffload reports whether a request of a namespace can offload what it names. It is called before a provider is asked,
// so that no capacity is bound that nothing can use. Errors: Invalid, Forbidden, NotFound.
func (r *Controller) CheckOffload(ctx context.Context, namespace string, o *api.Offload) error {
	if o == nil {
		return nil
	}
	if err := o.Check(r.Cluster); err != nil {
		return err
	}
	if r.Volumes == nil {
		return api.Invalid("offload", "this cluster has no Liqo, so no pod can run at a provider").
			Fix("leave out --offload (offload of the object): you get a reservation without pods; or install Liqo (docs/liqo.md)")
	}
	for _, name := range o.Namespaces {
		if err := offload.CheckAllowed(ctx, r.Client, name, namespace); err != nil {
			return err
		}
	}
	return nil
}

// findUnused returns the condition that says why the namespaces of a bound request are not offloaded, nil if they are or
// may soon be. Errors: the API server's.
func (r *Controller) findUnused(
	ctx context.Context, object *api.ResourceRequest, parts []*market.Reservation,
) (*metav1.Condition, error) {
	for _, part := range parts {
		var i api.ReservationInstruction
		err := r.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: part.ID}, &i)
		if client.IgnoreNotFound(err) != nil {
			return nil, kubeobject.Error(err)
		}
		c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOffloaded)
		if c != nil && c.Status == metav1.ConditionFalse {
			return c, nil
		}
	}
	return nil, nil
}
