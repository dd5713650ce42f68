package server_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// patient is a request for cores that waits.
func patient(cores string, priority int32) api.Request {
	r := transporttest.Request(cores)
	r.Wait, r.Priority = &metav1.Duration{Duration: time.Hour}, priority
	return r
}

// becomes waits until a reservation of a member is in a state.
func becomes(t *testing.T, m *servertest.Member, id string, want api.State) (r client.Reservation) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if r, err = m.Client.Reservation(t.Context(), id); err == nil && r.Payload.State == want {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s stays %s, %v; want %s", id, r.Payload.State, err, want)
		}
	}
}

// Whatever makes room serves who waits, in order; a repeat is a repeat; places are said, to those
// whom they concern; nobody fills the queue.
func TestQueue(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{Caps: market.Caps{Pending: 3, Priority: 9}})
	rome, paris, milan := f.Join("rome"), f.Join("paris"), f.Join("milan")
	milan.Advertise("4")
	ask := func(m *servertest.Member, key, cores string, priority int32) client.Reservation {
		t.Helper()
		r, err := m.Client.Reserve(ctx, key, patient(cores, priority))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := ask(rome, "first", "4", 0)
	if first.Payload.State != api.Held || first.Payload.Waiting == nil || first.Payload.Waiting.Position != 0 {
		t.Errorf("%+v", first.Payload)
	}
	young := ask(rome, "young", "3", 0)
	high := ask(paris, "high", "3", 9)
	if again := ask(rome, "young", "3", 0); again.ID != young.ID ||
		again.Payload.State != api.Pending || again.Payload.Waiting.Position != 2 || again.Payload.Decision == nil {
		t.Errorf("a repeat: %+v", again.Payload)
	}
	list, err := paris.Client.Reservations(ctx)
	if err != nil || len(list) != 1 || list[0].Payload.Waiting.Position != 1 {
		t.Errorf("paris reads %+v, %v", list, err)
	}
	ask(rome, "two", "90", 0)
	time.Sleep(2 * time.Millisecond) // of two that are of the same one, neither is first
	ask(rome, "three", "90", 0)
	if _, err := rome.Client.Reserve(ctx, "four", patient("90", 0)); api.CodeOf(err) != api.CodeCapReached {
		t.Errorf("a fourth waits: %v", err)
	}
	if _, err := paris.Client.Reserve(ctx, "higher", patient("1", 10)); api.CodeOf(err) != api.CodeCapReached {
		t.Errorf("above what it may: %v", err)
	}
	if _, err := milan.Client.Reservation(ctx, young.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("another reads what waits: %v", err)
	}

	if _, err := rome.Client.Release(ctx, first.ID, rome.End(first, api.ReasonReleased)); err != nil {
		t.Fatal(err)
	}
	held := becomes(t, paris, high.ID, api.Held)
	if p := held.Payload; p.Provider != "milan" || p.Decision == nil ||
		p.Decision.Chosen != "milan" || p.Waiting.Position != 0 {
		t.Errorf("%+v", p)
	}
	becomes(t, rome, young.ID, api.Pending)
	milan.Advertise("7") // it has more
	becomes(t, rome, young.ID, api.Held)
	turin := f.Join("turin") // a new one
	turin.Advertise("95")
	for _, key := range []string{"two"} {
		becomes(t, rome, ask(rome, key, "90", 0).ID, api.Held)
	}
}

// Small ones that never end do not keep a large one waiting: of the only cluster that it could have
// nothing more is given away, and what comes free is kept.
func TestNoStarvation(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome, paris, milan := f.Join("rome"), f.Join("paris"), f.Join("milan")
	milan.Advertise("4")
	var small []client.Reservation
	reserve := func(i int) (client.Reservation, bool) {
		r, err := paris.Client.Reserve(ctx, fmt.Sprint("small ", i), transporttest.Request("1"))
		if err != nil {
			t.Fatal(err)
		}
		return r, r.Payload.State == api.Held
	}
	for i := range 4 {
		r, _ := reserve(i)
		small = append(small, r)
	}
	large, err := rome.Client.Reserve(ctx, "large", patient("4", 0))
	if err != nil || large.Payload.State != api.Pending {
		t.Fatalf("%+v, %v", large.Payload, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		e, err := paris.Client.Evaluate(ctx, transporttest.Request("1"))
		if err == nil && len(e.Clusters) > 0 && f.Server.Queue.Kept(0) == "milan" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("milan is not kept")
		}
	}
	for i, r := range small { // each that ends is followed by another
		if _, err := paris.Client.Release(ctx, r.ID, paris.End(r, api.ReasonReleased)); err != nil {
			t.Fatal(err)
		}
		if next, held := reserve(4 + i); held && f.Server.Queue.Kept(0) != "" {
			t.Fatalf("%s passed the large one: %+v", next.ID, next.Payload)
		}
	}
	becomes(t, rome, large.ID, api.Held)
}
