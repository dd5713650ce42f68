package requests

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/turns"
)

// controlWaiting starts the controller that shows which requests wait for their turn. It has a worker of
// its own, because those of the other controller are busy while anything waits. It looks at a new
// request until something is shown there.
func (r *Controller) controlWaiting(m ctrl.Manager) error {
	created := handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent,
		queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if len(e.Object.(*api.ResourceRequest).Status.Conditions) == 0 {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, r.Passing)
		}
	}}
	return ctrl.NewControllerManagedBy(m).Named("waitingrequest").Watches(&api.ResourceRequest{}, created).
		WithOptions(controller.Options{NewQueue: turns.New(r.turnOf).NewQueue}).
		Complete(reconcile.Func(r.showTurn))
}

// showTurn shows in the status of a request that it waits, and for how many others, unless something is
// shown there already. It does so once: a write for each turn would hold up the turns.
func (r *Controller) showTurn(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object api.ResourceRequest
	if err := r.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	if len(object.Status.Conditions) > 0 || object.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	again := ctrl.Result{RequeueAfter: max(r.Passing, 10*time.Millisecond)}
	before, waits := r.order.Before(request)
	for _, slots := range []*turns.Slots[string, ctrl.Request]{r.holds, r.slots} {
		if !waits {
			before, waits = slots.Before(request)
		}
	}
	if !waits { // a worker has it, or it comes to the queue soon
		return again, nil
	}
	status := &object.Status
	status.Message = fmt.Sprintf("it waits for its turn: at %s, %d other requests of this cluster were before it",
		r.Market.Now().Go().UTC().Format(time.RFC3339), before)
	for _, condition := range []string{api.ConditionReserved, api.ConditionReady} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionFalse, Reason: api.WaitsForTurn,
			Message: status.Message, ObservedGeneration: object.Generation,
		})
	}
	writer := kubeobject.SoleStatus(r.Client)
	writer.IfUnchanged = true // else it could replace what came of the request meanwhile
	err := writer.Apply(ctx, &object)
	if apierrors.IsConflict(err) {
		return again, nil
	}
	return ctrl.Result{}, kubeobject.Error(err)
}
