package kubeobject

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Trigger asks a controller to look at objects again. It is made before the controller, which watches it
// (WatchesRawSource), and before those that add to it. The zero value is ready for use.
type Trigger struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // the controller's; nil before it starts
	waiting map[reconcile.Request]bool                              // for it to start
}

// Add asks the controller to look at an object, which need not exist. It does not wait. An object that waits
// in the queue already is looked at once.
func (t *Trigger) Add(namespace, name string) { t.AddAfter(namespace, name, 0) }

// AddAfter is Add after a time, or earlier if another call says so.
func (t *Trigger) AddAfter(namespace, name string, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	if t.queue != nil {
		t.queue.AddAfter(request, wait)
		return
	}
	if t.waiting == nil {
		t.waiting = map[reconcile.Request]bool{}
	}
	t.waiting[request] = true
}

// Start implements source.Source.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for request := range t.waiting {
		queue.Add(request)
	}
	t.queue, t.waiting = queue, nil
	return nil
}
