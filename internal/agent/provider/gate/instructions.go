package gate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// Instructions shows what the gate accepted as ProviderInstruction objects. They are a projection
// of the Ledger: to edit or delete one changes nothing else, except that its annotations answer
// what waits for approval.
type Instructions struct {
	client.Client
	Namespace string
	// Events receives an Event for each reservation that waits for approval. May be nil.
	Events events.EventRecorder
}

// Show makes the object of a reservation equal to the Ledger's record. A reservation that is over,
// or not yet committed, has no object, except while it waits for approval. Errors: those of the API
// server.
func (s *Instructions) Show(ctx context.Context, record *market.Reservation) error {
	i := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: record.ID}}
	if record.State == api.Held && record.ApproveBy == 0 {
		return nil
	}
	if record.State.Over() {
		// one that our cache does not have may be new
		if s.Get(ctx, client.ObjectKeyFromObject(i), i) == nil && i.DeletionTimestamp != nil {
			return nil
		}
		return kubeobject.Error(client.IgnoreNotFound(s.Delete(ctx, i)))
	}
	_, err := controllerutil.CreateOrPatch(ctx, s.Client, i, func() error {
		i.Spec = instruction.Spec(record)
		return nil
	})
	if err != nil { // if it exists already, our cache is behind: the next change shows it
		return kubeobject.Error(client.IgnoreAlreadyExists(err))
	}
	waited := meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionAwaitsApproval)
	if err := instruction.Show(ctx, s.Client, i, &i.Status, record); err != nil {
		return kubeobject.Error(err)
	}
	c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionAwaitsApproval)
	if waits := c != nil && c.Status == metav1.ConditionTrue; waits && !waited && s.Events != nil {
		s.Events.Eventf(i, nil, corev1.EventTypeNormal, api.ConditionAwaitsApproval, "Approve", "%s", c.Message)
	}
	return nil
}
