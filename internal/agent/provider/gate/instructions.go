package gate

import (
	"context"
	"time"

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
	// Market has the time.
	Market interface{ Now() market.Time }
	// Events receives an Event for each reservation that waits for approval. May be nil.
	Events events.EventRecorder
}

// answersStay is how long an object with an answer stays after the end of its reservation. Users read the answer there.
const answersStay = 30 * time.Second

// Show makes the object of a reservation equal to the Ledger's record. A reservation that is over,
// or not yet committed, has no object, except while it waits for approval. It returns when to show the
// reservation again, 0 for never. Errors: those of the API server.
func (s *Instructions) Show(ctx context.Context, record *market.Reservation) (again time.Duration, err error) {
	i := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: record.ID}}
	if record.State == api.Held && record.ApproveBy == 0 {
		return 0, nil
	}
	if record.State.Over() {
		return s.remove(ctx, i, record)
	}
	_, err = controllerutil.CreateOrPatch(ctx, s.Client, i, func() error {
		i.Spec = instruction.Spec(record)
		return nil
	})
	if err != nil { // if it exists already, our cache is behind: the next change shows it
		return 0, kubeobject.Error(client.IgnoreAlreadyExists(err))
	}
	waited := meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionAwaitsApproval)
	if err := instruction.Show(ctx, s.Client, i, &i.Status, record); err != nil {
		return 0, kubeobject.Error(err)
	}
	c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionAwaitsApproval)
	if waits := c != nil && c.Status == metav1.ConditionTrue; waits && !waited && s.Events != nil {
		s.Events.Eventf(i, nil, corev1.EventTypeNormal, api.ConditionAwaitsApproval, "Approve", "%s", c.Message)
	}
	return 0, nil
}

// remove deletes the object of a reservation that is over. If an admin answered it while it waited for approval, remove
// shows the end, and deletes the object later.
func (s *Instructions) remove(ctx context.Context, i *api.ProviderInstruction,
	record *market.Reservation) (again time.Duration, err error) {
	if err := s.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil { // one that our cache does not have may be new
		return 0, kubeobject.Error(client.IgnoreNotFound(s.Delete(ctx, i)))
	}
	if i.DeletionTimestamp != nil {
		return 0, nil
	}
	_, approved := i.Annotations[instruction.Approve.Annotation()]
	_, refused := i.Annotations[instruction.Refuse.Annotation()]
	stays := answersStay - s.Market.Now().Go().Sub(record.Changed.Go())
	if (approved || refused) && record.Acceptance == "" && stays > 0 {
		return stays, kubeobject.Error(instruction.Show(ctx, s.Client, i, &i.Status, record))
	}
	// Only as it was read: an order that came since then is answered first.
	asRead := client.Preconditions{ResourceVersion: &i.ResourceVersion}
	return 0, kubeobject.Error(client.IgnoreNotFound(s.Delete(ctx, i, asRead)))
}
