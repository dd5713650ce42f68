package requests

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/turns"
)

// newQueue returns the queue of a controller: namespaces take turns, and requests that end come first.
func newQueue(order *turns.Queue[ctrl.Request]) func(
	string, workqueue.TypedRateLimiter[ctrl.Request],
) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	return func(
		name string, limiter workqueue.TypedRateLimiter[ctrl.Request],
	) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return order.Workqueue(name, nil, limiter)
	}
}

// turnOf returns the turn of a request. It reads the manager's cache, and waits one second at most for one that is
// not filled yet.
func (r *Controller) turnOf(at ctrl.Request) turns.Turn {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var object api.ResourceRequest
	err := r.Get(ctx, at.NamespacedName, &object)
	return turns.Turn{
		Party: at.Namespace, Ends: apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil,
	}
}
