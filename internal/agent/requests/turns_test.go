package requests

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// requestsByName stands for the manager's cache.
type requestsByName struct {
	client.Client
	deleted map[types.NamespacedName]bool
}

func (c requestsByName) Get(
	_ context.Context, at client.ObjectKey, object client.Object, _ ...client.GetOption,
) error {
	if c.deleted[at] {
		object.(*api.ResourceRequest).DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return nil
}

func waitsFor(namespace string, n int) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("r", n)}}
}

// crowdedQueue returns the controller's queue, in which 2,000 requests of namespace noisy wait.
func crowdedQueue(t *testing.T) (workqueue.TypedRateLimitingInterface[ctrl.Request], requestsByName) {
	t.Helper()
	cache := requestsByName{deleted: map[types.NamespacedName]bool{}}
	queue := New(Options{Client: cache}).newQueue("", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	for n := range 2000 {
		queue.Add(waitsFor("noisy", n))
	}
	return queue, cache
}

// turnOf returns how many requests are served before one, and with it.
func turnOf(queue workqueue.TypedInterface[ctrl.Request], one ctrl.Request) int {
	for n := 1; queue.Len() > 0; n++ {
		item, _ := queue.Get()
		queue.Done(item)
		if item == one {
			return n
		}
	}
	return 0
}

func TestNamespacesTakeTurns(t *testing.T) {
	queue, _ := crowdedQueue(t)
	queue.Add(waitsFor("quiet", 0))
	queue.Add(waitsFor("quiet", 1))
	for _, one := range []ctrl.Request{waitsFor("quiet", 0), waitsFor("quiet", 1)} {
		if n := turnOf(queue, one); n == 0 || n > 2 {
			t.Errorf("%s has turn %d, want at most 2", one, n)
		}
	}
	if n := queue.Len(); n != 1998 {
		t.Errorf("%d requests wait, want 1998", n)
	}
}

func TestAnEndComesFirst(t *testing.T) {
	queue, cache := crowdedQueue(t)
	for _, end := range []ctrl.Request{waitsFor("noisy", 1999), waitsFor("quiet", 0)} { // it waits; it is new
		cache.deleted[end.NamespacedName] = true
		queue.Add(end)
		if n := turnOf(queue, end); n == 0 || n > 2 {
			t.Errorf("the end of %s has turn %d, want at most 2", end, n)
		}
	}
}

func TestEndsDoNotStopBeginnings(t *testing.T) {
	queue, cache := crowdedQueue(t)
	for n := range 2000 {
		cache.deleted[waitsFor("noisy", n).NamespacedName] = true
		queue.Add(waitsFor("noisy", n))
	}
	queue.Add(waitsFor("quiet", 0))
	if n := turnOf(queue, waitsFor("quiet", 0)); n == 0 || n > 2 {
		t.Fatalf("a beginning has turn %d, want at most 2", n)
	}
	for range 1999 {
		item, _ := queue.Get()
		queue.Done(item)
	}
	if n := queue.Len(); n != 0 {
		t.Errorf("%d requests wait, want none", n)
	}
}
