package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// hanging has calls about a kind never end, while it is on.
type hanging struct {
	http.RoundTripper
	resource string
	on       atomic.Bool
	calls    atomic.Int64
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.on.Load() && strings.Contains(r.URL.Path, h.resource) {
		h.calls.Add(1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return h.RoundTripper.RoundTrip(r)
}

// An API server that hangs stalls no other page: each reader waits as long as it wants, other kinds are read, and so is
// what is watched already.
func TestAHangingAPIServerStallsNoOtherReader(t *testing.T) {
	simulated, err := sim.NewCluster(t.Context(), sim.Options{Name: "rome", Types: federation.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	hang := &hanging{resource: "resourcerequests"}
	config := simulated.API.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { hang.RoundTripper = next; return hang })
	w, err := cluster.NewWatched(t.Context(), config, func() {})
	if err != nil {
		t.Fatal(err)
	}
	read := func(within time.Duration, all kube.ObjectList) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		begin := time.Now()
		err := w.List(ctx, all)
		return time.Since(begin), err
	}
	hang.on.Store(true)
	go func() { _, _ = read(time.Minute, &api.ResourceRequestList{}) }() // another page, which is patient
	for hang.calls.Load() == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if took, err := read(300*time.Millisecond, &api.ResourceRequestList{}); err == nil || took > 5*time.Second {
		t.Errorf("a second reader of what hangs waits %v, %v", took, err)
	}
	if took, err := read(10*time.Second, &api.OfferList{}); err != nil {
		t.Errorf("a reader of another kind waits %v, %v", took, err)
	}

	fresh, err := cluster.NewWatched(t.Context(), rest.CopyConfig(config), func() {})
	if err != nil {
		t.Fatal(err)
	}
	w = fresh
	hang.on.Store(false)
	objects, err := cluster.NewObjects(simulated.API.Config())
	if err != nil {
		t.Fatal(err)
	}
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	o.Spec.Request = transporttest.Request("2")
	if err := objects.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := read(20*time.Second, &api.ResourceRequestList{}); err != nil {
		t.Fatal(err)
	}
	hang.on.Store(true)
	w.LookAgain()
	var all api.ResourceRequestList
	if took, err := read(5*time.Second, &all); err != nil || len(all.Items) != 1 {
		t.Errorf("what is watched is read after %v: %d objects, %v", took, len(all.Items), err)
	}
}

// Who does not wait for the first look at a kind is told which it is and in which stage, and called once the objects are
// there, though there is none.
func TestAReaderThatDoesNotWaitIsCalled(t *testing.T) {
	simulated, err := sim.NewCluster(t.Context(), sim.Options{Name: "rome", Types: federation.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan bool, 1)
	w, err := cluster.NewWatched(t.Context(), simulated.API.Config(), func() {
		select {
		case called <- true:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = w.List(over, &api.OfferList{})
	loading, is := errors.AsType[*cluster.LoadingError](err)
	if !is || loading.Kind != "Offer" || loading.Since.IsZero() || !errors.Is(err, context.Canceled) ||
		api.CodeOf(err) != api.CodeUnavailable {
		t.Fatalf("the reader gets %v", err)
	}
	<-called
	if err := w.List(over, &api.OfferList{}); err != nil {
		t.Errorf("what is there is not read: %v", err)
	}
}
