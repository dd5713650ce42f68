package requests

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
)

// newQueue returns the controller's queue: namespaces take turns, and requests that end come first.
func (r *Controller) newQueue(
	name string, limiter workqueue.TypedRateLimiter[ctrl.Request],
) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[ctrl.Request]{
		Name: name, Queue: &turns{ends: r.ends},
	})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[ctrl.Request]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[ctrl.Request]{Name: name, Queue: waiting}),
		})
}

// ends reports whether a request is deleted. It reads the manager's cache, and waits one second at most
// for one that is not filled yet.
func (r *Controller) ends(at ctrl.Request) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var object api.ResourceRequest
	err := r.Get(ctx, at.NamespacedName, &object)
	return apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil
}

// turns orders the requests that wait for a worker. Ends and all others alternate, ends first, so
// that neither can keep the other waiting. Among each of the two, namespaces take turns.
type turns struct {
	ends           func(ctrl.Request) bool
	ending, others rota
	endWasLast     bool
}

var _ workqueue.Queue[ctrl.Request] = (*turns)(nil)

// Push implements workqueue.Queue.
func (t *turns) Push(item ctrl.Request) {
	if t.ends(item) {
		t.ending.add(item)
	} else {
		t.others.add(item)
	}
}

// Touch implements workqueue.Queue: a request that was deleted while it waits now waits as an end.
func (t *turns) Touch(item ctrl.Request) {
	if t.ends(item) && t.others.remove(item) {
		t.ending.add(item)
	}
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.ending.size + t.others.size }

// Pop implements workqueue.Queue.
func (t *turns) Pop() ctrl.Request {
	t.endWasLast = t.ending.size > 0 && !(t.endWasLast && t.others.size > 0)
	if t.endWasLast {
		return t.ending.next()
	}
	return t.others.next()
}

// rota has the waiting requests of each namespace. Namespaces are in the order of their next turns.
type rota struct {
	namespaces []string
	waiting    map[string][]ctrl.Request
	size       int
}

func (r *rota) add(item ctrl.Request) {
	if r.waiting == nil {
		r.waiting = map[string][]ctrl.Request{}
	}
	if len(r.waiting[item.Namespace]) == 0 {
		r.namespaces = append(r.namespaces, item.Namespace)
	}
	r.waiting[item.Namespace] = append(r.waiting[item.Namespace], item)
	r.size++
}

// next removes the oldest request of the namespace whose turn it is. The rota must not be empty.
func (r *rota) next() ctrl.Request {
	namespace := r.namespaces[0]
	r.namespaces = r.namespaces[1:]
	item := r.waiting[namespace][0]
	r.waiting[namespace] = r.waiting[namespace][1:]
	r.size--
	if len(r.waiting[namespace]) > 0 {
		r.namespaces = append(r.namespaces, namespace)
	} else {
		delete(r.waiting, namespace)
	}
	return item
}

// remove reports whether the request waited.
func (r *rota) remove(item ctrl.Request) bool {
	i := slices.Index(r.waiting[item.Namespace], item)
	if i < 0 {
		return false
	}
	r.waiting[item.Namespace] = slices.Delete(r.waiting[item.Namespace], i, i+1)
	r.size--
	if len(r.waiting[item.Namespace]) == 0 {
		delete(r.waiting, item.Namespace)
		r.namespaces = slices.DeleteFunc(r.namespaces, func(n string) bool { return n == item.Namespace })
	}
	return true
}
