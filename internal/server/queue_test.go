package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if r, err = m.Client.Reservation(t.Context(), id); err == nil && r.Payload.State == want {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s stays %s, %v; want %s", id, r.Payload.State, err, want)
		}
	}
}

// Freed capacity serves waiting requests in their order. A repeat changes nothing. Consumers see their own
// places. Nobody fills the queue.
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
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

// A bookmark says when a cluster last had more capacity, also while no request waits.
func TestBookmarksSayThatThereIsMore(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Quiet: 20 * time.Millisecond}})
	rome, milan := f.Join("rome"), f.Join("milan")
	grown := func(than int64) (last int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := rome.Client.Watch(ctx, "", func(e api.WatchEvent) error {
			if last = e.Grown; last > than {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		return last
	}
	milan.Advertise("4")
	first := grown(0)
	milan.Advertise("6")
	grown(first)
}

// A cluster that asked what fits gets a bookmark as soon as another has more capacity, also while nothing else
// happens.
func TestABookmarkFollowsAnAskWhatFits(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Quiet: time.Hour}})
	rome, milan := f.Join("rome"), f.Join("milan")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bookmarks, ended := make(chan int64, 10), make(chan error, 1)
	go func() {
		ended <- rome.Client.Watch(ctx, "", func(e api.WatchEvent) error {
			if e.Type == api.WatchBookmark {
				bookmarks <- e.Grown
			}
			return nil
		})
	}()
	next := func() int64 {
		t.Helper()
		select {
		case grown := <-bookmarks:
			return grown
		case err := <-ended:
			t.Fatal(err)
			return 0
		}
	}
	before := next()
	for _, cpu := range []string{"4", "6"} {
		q := api.EvaluationCreate{Request: transporttest.Request("100"), Fitting: api.Fitting{Fits: 8}}
		if _, err := rome.Client.Fit(ctx, q); err != nil {
			t.Fatal(err)
		}
		milan.Advertise(cpu)
		grown := next()
		if grown <= before {
			t.Errorf("with %s CPUs a bookmark says %d, after %d", cpu, grown, before)
		}
		before = grown
	}
}

// What is kept for a request that waits fits nobody else.
func TestFitsLeaveOutWhatIsKept(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Caps: market.Caps{Pending: 3}})
	rome, paris, milan := f.Join("rome"), f.Join("paris"), f.Join("milan")
	milan.Advertise("4")
	first, err := rome.Client.Reserve(t.Context(), "first", transporttest.Request("2"))
	if err != nil || first.Payload.State != api.Held {
		t.Fatalf("%+v, %v", first.Payload, err)
	}
	fits := func() int {
		t.Helper()
		q := api.EvaluationCreate{Request: transporttest.Request("1"), Fitting: api.Fitting{Fits: 8}}
		e, err := paris.Client.Fit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return e.Fits.Qualified
	}
	if n := fits(); n != 1 {
		t.Fatalf("%d clusters have room", n)
	}
	if _, err := rome.Client.Reserve(t.Context(), "large", patient("4", 0)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); fits() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what is kept still fits")
		}
	}
}

// A consumer whose agent is away gets no turn, and keeps nothing from others, until it is back. One that never
// advertises gets its turn.
func TestAConsumerThatIsAwayIsPassedOver(t *testing.T) {
	ctx := t.Context()
	a := newAge(t, "milan")
	paris, lyon := a.Join("paris"), a.Join("lyon")
	a.rome.Advertise("1")
	ask := func(m *servertest.Member) client.Reservation {
		t.Helper()
		r, err := m.Client.Reserve(ctx, "key", patient("5", 0))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := ask(a.rome)
	becomes(t, a.rome, first.ID, api.Held)
	a.pass(5 * time.Minute)
	waits := becomes(t, a.rome, first.ID, api.Pending)
	if n := len(waits.Payload.Tried); n == 0 || n > 2 {
		t.Errorf("tried %+v", waits.Payload.Tried)
	}
	held := ask(paris)
	becomes(t, paris, held.ID, api.Held)
	second := ask(lyon)
	becomes(t, lyon, second.ID, api.Pending)
	if _, err := paris.Client.Release(ctx, held.ID, paris.End(held, api.ReasonReleased)); err != nil {
		t.Fatal(err)
	}
	held = becomes(t, lyon, second.ID, api.Held)
	becomes(t, a.rome, first.ID, api.Pending)
	if _, err := lyon.Client.Release(ctx, held.ID, lyon.End(held, api.ReasonReleased)); err != nil {
		t.Fatal(err)
	}
	a.rome.Advertise("1")
	becomes(t, a.rome, first.ID, api.Held)
}
