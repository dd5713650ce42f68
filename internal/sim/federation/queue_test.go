package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// cores is a request for some, which waits for an hour where it must.
func cores(n string, priority int32) api.Request {
	return api.Request{Resources: api.Resources{"cpu": resource.MustParse(n)},
		Wait: &metav1.Duration{Duration: time.Hour}, Priority: priority}
}

// makes makes a request of a member's people, and returns its reservation once it is in a state.
func (f *fair) makes(m *federation.Member, name string, r api.Request, want api.State) client.Reservation {
	f.t.Helper()
	if _, err := m.People.MakeRequest(f.t.Context(), api.RequestCreate{Name: name, Request: r}); err != nil {
		f.t.Fatal(err)
	}
	return f.is(m, name, want)
}

// is waits until a request is in a state.
func (f *fair) is(m *federation.Member, name string, want api.State) client.Reservation {
	f.t.Helper()
	id := ""
	f.becomes(m, name, func(s api.ResourceRequestStatus) bool { id = s.Reservation; return s.State == want })
	return must(m.People.Reservation(f.t.Context(), id))(f.t)
}

// Two wait, by priority, also while the broker is away; nobody passes the first where its room is
// kept; one releases, and the right one is served; one that is deleted waits no longer.
func TestQueue(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	all := must(f.rome.People.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool].Available["cpu"]
	most := resource.NewQuantity(all.MilliValue()/1000-1, resource.DecimalSI).String()
	now := f.makes(f.rome, "now", cores(most, 0), api.Reserved)
	low := f.makes(f.oslo, "low", cores(most, -1), api.Pending)
	if w := low.Payload.Waiting; w == nil || w.Position != 1 ||
		w.Priority != -1 || low.Payload.Decision == nil || low.Payload.Decision.NearestMiss == nil {
		t.Errorf("%+v", low.Payload)
	}
	high := f.makes(f.rome, "high", cores(most, 0), api.Pending)
	if w := high.Payload.Waiting; w == nil || w.Position != 1 {
		t.Errorf("%+v", high.Payload.Waiting)
	}
	status := must(f.rome.People.Request(t.Context(), "default", "high"))(t).Payload.Status
	if !strings.Contains(status.Message, "it waits for one until") ||
		!strings.Contains(status.Message, "nearest miss milan, by fits") {
		t.Errorf("%+v", status)
	}

	f.Broker.Stop()
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("they wait as before", func() bool {
		first, err := f.rome.People.Reservation(t.Context(), high.ID)
		second, err2 := f.oslo.People.Reservation(t.Context(), low.ID)
		return err == nil && err2 == nil && first.Payload.State == api.Pending &&
			first.Payload.Waiting.Position == 1 && second.Payload.Waiting.Position == 2
	})
	one := cores("1", 0)
	one.Wait = nil
	f.until("milan is kept for the first", func() bool {
		e, err := f.oslo.People.Evaluate(t.Context(), one)
		return err == nil && e.Decision.NearestMiss != nil && e.Decision.NearestMiss.Filter == "kept"
	})
	if e := must(f.oslo.People.Evaluate(t.Context(),
		func() api.Request { r := one; r.Priority = 1; return r }()))(t); e.Decision.Candidates != 1 {
		t.Errorf("who stands before the first: %+v", e.Decision)
	}

	if err := f.rome.People.ReleaseLocally(t.Context(), now.ID, api.Release{}); err != nil {
		t.Fatal(err)
	}
	got := f.is(f.rome, "high", api.Reserved)
	if p := got.Payload; p.Provider != "milan" || !p.Waiting.Since.Equal(&high.Payload.Created) ||
		p.Created.Time.Before(high.Payload.Created.Time) {
		t.Errorf("%+v", p)
	}
	f.is(f.oslo, "low", api.Pending)
	if err := f.oslo.People.ReleaseLocally(t.Context(), low.ID, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("it waits no longer", func() bool {
		r, err := f.oslo.People.Reservation(t.Context(), low.ID)
		return err == nil && r.Payload.State == api.Failed && r.Payload.Reason == api.ReasonCancelled
	})
	f.until("nothing is kept any more", func() bool {
		e, err := f.oslo.People.Evaluate(t.Context(), one)
		return err == nil && e.Decision.Candidates == 1
	})
}

// A request that is never served is Rejected with the explanation of its last try. One that waits for a plan gets it
// when another buyer gives it back.
func TestQueueEnds(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	r := cores("1000", 0)
	r.Wait = &metav1.Duration{Duration: time.Second}
	f.makes(f.rome, "vain", r, api.Rejected)
	status := must(f.rome.People.Request(t.Context(), "default", "vain"))(t).Payload.Status
	if why := must(f.rome.People.Reservation(t.Context(), status.Reservation))(t).Payload.Decision; why == nil ||
		why.NearestMiss == nil || why.NearestMiss.Filter != "fits" {
		t.Errorf("%+v: %+v", status, why)
	}

	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	buy := api.Request{Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Units: 3, Digest: digest},
		Wait: &metav1.Duration{Duration: time.Hour}}
	sold := f.makes(f.rome, "sold", buy, api.Reserved)
	waits := f.makes(f.oslo, "waits", buy, api.Pending)
	if waits.Payload.Sale == nil {
		t.Errorf("%+v", waits.Payload)
	}
	if err := f.rome.People.ReleaseLocally(t.Context(), sold.ID, api.Release{}); err != nil {
		t.Fatal(err)
	}
	if got := f.is(f.oslo, "waits", api.Reserved); got.Payload.Provider != "milan" || got.Payload.Sale.Units != 3 {
		t.Errorf("%+v", got.Payload)
	}
}

// A request that gets its turn while its agent is away goes back to the queue. It is served when the agent is back.
func TestQueueWhileTheConsumerIsAway(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	all := must(f.rome.People.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool].Available["cpu"]
	most := resource.NewQuantity(all.MilliValue()/1000-1, resource.DecimalSI).String()
	now := f.makes(f.oslo, "now", cores(most, 0), api.Reserved)
	waits := f.makes(f.rome, "waits", cores(most, 0), api.Pending)
	f.StopMember("rome")
	if err := f.oslo.People.ReleaseLocally(t.Context(), now.ID, api.Release{}); err != nil {
		t.Fatal(err)
	}
	read := func() client.Reservation {
		t.Helper()
		r := must(f.Operator.Reservation(t.Context(), waits.ID))(t)
		if r.Payload.State.Over() {
			t.Fatalf("%s (%s): %s", r.Payload.State, r.Payload.Reason, r.Payload.Message)
		}
		return r
	}
	f.until("it gets its turn", func() bool { return read().Payload.State == api.Held })
	f.until("it waits again, and its consumer is gone", func() bool {
		f.Pass(5 * time.Second) // slowly enough that the broker does not take it for a pause
		time.Sleep(300 * time.Millisecond)
		return read().Payload.State == api.Pending &&
			!must(f.Operator.Cluster(t.Context(), "rome"))(t).Payload.Fresh
	})
	f.StartMember("rome")
	f.until("its agent listens", func() bool { _, err := f.rome.People.Status(t.Context()); return err == nil })
	if got := f.is(f.rome, "waits", api.Reserved); got.ID != waits.ID || len(got.Payload.Tried) == 0 {
		t.Errorf("%+v", got.Payload)
	}
}
