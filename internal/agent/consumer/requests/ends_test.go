package requests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// slow answers for the reservations of namespace slow only when it may go on.
type slow struct {
	offloads
	begun, goOn chan bool
	now, most   atomic.Int32 // how many calls wait at a time
}

func (s *slow) Unoffloads(_ context.Context, ending *market.Reservation, _ market.Time) ([]string, error) {
	if ending.Object.Namespace != "slow" {
		return nil, nil
	}
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	s.begun <- true
	<-s.goOn
	return nil, nil
}

// deleted returns a request that is being deleted, and has a reservation that is Active.
func deleted(t *testing.T, x *exchange.Exchange, namespace, name string) *api.ResourceRequest {
	t.Helper()
	uid := namespace + "-" + name
	if _, err := x.Do(t.Context(), market.Note{Reservation: &market.Reservation{
		ID: uid, State: api.Active, Consumer: "rome", Provider: "milan", Generation: 1,
		Until:  market.At(x.Now().Go().Add(time.Hour)),
		Object: &market.Object{Namespace: namespace, Name: name, UID: uid}}}); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	return &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid),
		DeletionTimestamp: &now, Finalizers: []string{api.VolumesFinalizer}},
		Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{namespace}}}}
}

// The requests of one namespace end one after the other, as each could keep the volumes of the next. Those that wait
// keep no worker, and no request of another namespace waits for them.
func TestEndsOfOneTenantHoldUpNoOther(t *testing.T) {
	x := exchangetest.Open(t, nil, exchange.Options{Self: "rome", Resume: true})
	first, second, other := deleted(t, x, "slow", "first"), deleted(t, x, "slow", "second"), deleted(t, x, "other", "one")
	s := &slow{begun: make(chan bool, 2), goOn: make(chan bool)}
	r := New(Options{Market: x, Volumes: claims{}, Offloading: s, Changed: &kubeobject.Trigger{},
		Client:   fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(first, second, other).Build(),
		Borrower: NewBorrower(BorrowerOptions{Cluster: "rome", Market: x, Key: transporttest.NewParty(t, "rome").Key})})
	again := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(again.ShutDown)
	if err := r.Changed.Start(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	serve := func(o *api.ResourceRequest) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			done <- err
		}()
		return done
	}
	ends := func(what string, done chan error, o *api.ResourceRequest, want api.State) {
		t.Helper()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			close(s.goOn)
			t.Fatalf("%s: it is held up", what)
		}
		var state api.State
		if err := x.Read(t.Context(), func(s *market.State) {
			state = s.Reservation(string(o.UID)).State
		}); err != nil || state != want {
			t.Errorf("%s: its reservation is %s, %v; want %s", what, state, err, want)
		}
	}
	slowly := serve(first)
	<-s.begun
	ends("another of its namespace", serve(second), second, api.Active)
	ends("one of another namespace", serve(other), other, api.Releasing)
	s.goOn <- true
	ends("the first", slowly, first, api.Releasing)
	if request, _ := again.Get(); request.Name != second.Name {
		t.Errorf("%s comes next", request)
	}
	slowly = serve(second)
	<-s.begun
	s.goOn <- true
	ends("the second", slowly, second, api.Releasing)
	if most := s.most.Load(); most != 1 {
		t.Errorf("%d requests of one namespace ended at once", most)
	}
}
