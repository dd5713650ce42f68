package requests

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

// Offloading offloads namespaces to providers. borrowing.Borrowing is one.
type Offloading interface {
	// Offload offloads the namespaces that all requests name, and ends the offloading of others.
	Offload(ctx context.Context) error
	// Unoffloads returns the namespaces that a provider loses, with all their volumes there, once a
	// reservation has ended at a time.
	Unoffloads(ctx context.Context, ending *market.Reservation, at market.Time) ([]string, error)
	// CheckNamespaces returns why the namespaces of a request cannot be mapped at a provider with this card.
	// Errors: NamespacesFull.
	CheckNamespaces(ctx context.Context, request *api.ResourceRequest, provider *api.Card) error
}

// CheckOffload reports whether a request of a namespace can offload what it names. It is called
// before a provider is asked, so that no capacity is bound that nothing can use. Errors: Invalid,
// Forbidden, NotFound.
func (r *Controller) CheckOffload(ctx context.Context, namespace string, o *api.Offload) error {
	if o == nil {
		return nil
	}
	if err := o.Check(r.Borrower.Cluster); err != nil {
		return err
	}
	if r.Volumes == nil {
		return api.Invalid("offload", "this cluster has no Liqo, so no pod can run at a provider").
			Fix("leave out --offload (offload of the object): you get a reservation without pods; or install " +
				"Liqo (docs/liqo.md)")
	}
	for _, name := range o.Namespaces {
		if err := offload.CheckAllowed(ctx, r.Client, name, namespace); err != nil {
			return err
		}
	}
	return nil
}

// readInstructions returns the instruction of each part of a request, empty where there is none yet.
func (r *Controller) readInstructions(
	ctx context.Context, object *api.ResourceRequest, parts []*market.Reservation,
) ([]api.ReservationInstruction, error) {
	all := make([]api.ReservationInstruction, len(parts))
	for n, part := range parts {
		err := r.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: part.ID}, &all[n])
		if client.IgnoreNotFound(err) != nil {
			return nil, kubeobject.Error(err)
		}
	}
	return all, nil
}

// findUnused returns why new pods of a bound request cannot run at the provider, as a reason and a
// message: the provider suspended this cluster, its virtual node is no longer Ready, or its namespaces
// are not offloaded. Both are empty if they can, or if nothing is known yet.
func findUnused(
	parts []*market.Reservation, instructions []api.ReservationInstruction,
) (reason, message string) {
	for n, part := range parts {
		i := &instructions[n]
		if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionSuspended); c != nil &&
			c.Status == metav1.ConditionTrue {
			return c.Reason, part.Provider + " gives nothing more: " + c.Message
		}
		node := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNodeReady)
		if part.State == api.Active && node != nil && node.Status == metav1.ConditionFalse {
			return api.NodeNotReady, "virtual node " + part.Slice() + ": " + node.Message
		}
		if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOffloaded); c != nil &&
			c.Status == metav1.ConditionFalse {
			return "NotOffloaded", "not offloaded: " + api.WithoutCode(c.Message)
		}
	}
	return "", ""
}

// showLabelsDropped shows which labels that the providers of bound parts send are dropped.
func showLabelsDropped(object *api.ResourceRequest, status *api.ResourceRequestStatus, parts []*market.Reservation,
	instructions []api.ReservationInstruction) {
	shown := metav1.Condition{Type: api.ConditionLabelsDropped, Status: metav1.ConditionTrue,
		ObservedGeneration: object.Generation}
	var texts []string
	for n, part := range parts {
		if c := meta.FindStatusCondition(instructions[n].Status.Conditions, shown.Type); c != nil && part.Bound() {
			shown.Reason, texts = c.Reason, append(texts, c.Message)
		}
	}
	if len(texts) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, shown.Type)
		return
	}
	shown.Message = strings.Join(texts, "; ")
	meta.SetStatusCondition(&status.Conditions, shown)
}
