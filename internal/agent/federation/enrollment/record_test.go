package enrollment

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// recordingCluster has no object Agent yet.
func recordingCluster(t *testing.T, kinds ...kubeapi.Type) client.WithWatch {
	t.Helper()
	known := runtime.NewScheme()
	if err := api.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(kubeapi.New(kubeapi.Options{Types: kinds}).Config(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var agentKind = kubeapi.Type{GroupVersion: api.GroupVersion, Kind: "Agent", Resource: "agents", Status: true}

func recordOf(c client.WithWatch, own api.RecordedAgent, former ...string) *Record {
	return NewRecord(RecordOptions{Client: c, Own: own, Former: former, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
}

// The record is of the first agent. One with another key or another Ledger, as after a namespace that was made again,
// leaves it and names the other one, until an admin deletes the record. A rotated key is the same agent's.
func TestRecord(t *testing.T) {
	ctx, c := t.Context(), recordingCluster(t, agentKind)
	object := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	look := func(own api.RecordedAgent, former ...string) (recorded api.RecordedAgent, other *api.RecordedAgent) {
		t.Helper()
		r := recordOf(c, own, former...)
		r.Make(ctx)
		other, err := r.Other()
		if err := errors.Join(err, c.Get(ctx, client.ObjectKeyFromObject(object), object)); err != nil {
			t.Fatal(err)
		}
		return object.Status, other
	}
	first := api.RecordedAgent{Fingerprint: "a", Ledger: "first", Cluster: "rome", Namespace: "bourse", Version: "1"}
	rotated := api.RecordedAgent{Fingerprint: "b", Ledger: "first", Cluster: "rome", Namespace: "platform-x", Version: "2"}
	for _, own := range []api.RecordedAgent{first, first, rotated} {
		if recorded, other := look(own, "a"); recorded != own || other != nil {
			t.Errorf("of %+v it records %+v, and names %+v", own, recorded, other)
		}
	}
	for _, own := range []api.RecordedAgent{first, {Fingerprint: "c", Ledger: "first"}, {Fingerprint: "b", Ledger: "second"}} {
		if recorded, other := look(own); recorded != rotated || other == nil || *other != rotated {
			t.Errorf("of %+v it records %+v, and names %+v", own, recorded, other)
		}
	}
	if err := c.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	again := api.RecordedAgent{Fingerprint: "c", Ledger: "second"}
	if recorded, other := look(again); recorded != again || other != nil {
		t.Errorf("after the deletion it records %+v, and names %+v", recorded, other)
	}
}

// removing has the object removed just before a watch of it begins.
type removing struct{ client.WithWatch }

func (r removing) Watch(ctx context.Context, all client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
	_ = r.Delete(ctx, &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}})
	return r.WithWatch.Watch(ctx, all, o...)
}

// An agent follows its record: it notices another one, and records itself as soon as an admin deletes that.
func TestRecordIsFollowed(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := recordingCluster(t, agentKind)
	old := recordOf(c, api.RecordedAgent{Fingerprint: "a", Ledger: "first"})
	own := recordOf(removing{c}, api.RecordedAgent{Fingerprint: "b", Ledger: "second"})
	old.Make(ctx)
	own.Make(ctx)
	ended := make(chan error, 1)
	go func() { ended <- own.Run(ctx) }()
	recorded(t, c, own.Own)
	object := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	if err := c.Delete(ctx, object); err != nil { // while Run watches
		t.Fatal(err)
	}
	recorded(t, c, own.Own)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// recorded waits until an agent is recorded.
func recorded(t *testing.T, c client.WithWatch, want api.RecordedAgent) {
	t.Helper()
	object := &api.Agent{}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err := c.Get(t.Context(), client.ObjectKey{Name: api.AgentName}, object); err == nil && object.Status == want {
			return
		}
	}
	t.Errorf("%+v is recorded, want %+v", object.Status, want)
}

// An agent starts where the API server lacks the kind, as with older CRDs: CRDsOlder says so. It starts without the right
// to the object, which the doctor names, and after a while also where the API server fails.
func TestAnAgentStartsWithoutItsRecord(t *testing.T) {
	older := recordOf(recordingCluster(t), api.RecordedAgent{Fingerprint: "a", Ledger: "first"})
	older.Make(t.Context())
	if other, err := older.Other(); other != nil || err != nil {
		t.Errorf("of an older API server: %+v, %v", other, err)
	}
	synctest.Test(t, func(t *testing.T) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Group: api.Group, Resource: "agents"}, api.AgentName, errors.New("no right"))
		for _, err := range []error{forbidden, errors.New("no connection")} {
			r := recordOf(failing{err: err}, api.RecordedAgent{Fingerprint: "a", Ledger: "first"})
			r.Make(t.Context())
			if other, got := r.Other(); other != nil || !errors.Is(got, err) {
				t.Errorf("%v: it finds %+v, %v", err, other, got)
			}
		}
	})
}

// failing is an API server that answers with an error.
type failing struct {
	client.WithWatch
	err error
}

func (f failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.err
}
