package kubeobject_test

import (
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

var _ source.Source = &kubeobject.Trigger{}

// A controller looks once at each object that was added, before it started and after.
func TestTrigger(t *testing.T) {
	trigger, queue := &kubeobject.Trigger{}, workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	trigger.Add("bourse", "rome")
	trigger.Add("bourse", "rome")
	if err := trigger.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // more than any channel holds
		trigger.Add("bourse", "milan")
	}
	found := map[string]int{}
	for range queue.Len() {
		request, _ := queue.Get()
		found[request.Namespace+"/"+request.Name]++
		queue.Done(request)
	}
	if len(found) != 2 || found["bourse/rome"] != 1 || found["bourse/milan"] != 1 || queue.Len() != 0 {
		t.Errorf("it looks at %v, and %d wait", found, queue.Len())
	}
}
