package server_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// age is a federation on a clock that the test moves; its providers go on advertising.
type age struct {
	*servertest.Federation
	t         *testing.T
	clock     *transporttest.Clock
	rome      *servertest.Member
	providers map[string]*servertest.Member
}

func newAge(t *testing.T, providers ...string) *age {
	t.Helper()
	clock := transporttest.NewClock()
	a := &age{Federation: servertest.Start(t, servertest.Options{Clock: clock}),
		t: t, clock: clock, providers: map[string]*servertest.Member{}}
	a.rome = a.Join("rome")
	for _, name := range providers {
		a.providers[name] = a.Join(name)
	}
	a.pass(0)
	return a
}

func (a *age) pass(d time.Duration) {
	a.t.Helper()
	for ; ; d -= 25 * time.Second {
		for _, p := range a.providers {
			p.Advertise("8")
		}
		if d <= 0 {
			return
		}
		a.clock.Move(min(d, 25*time.Second), func() time.Time { return a.Exchange.Now().Go() })
	}
}

func (a *age) at(id string, state api.State, reason api.Reason) client.Reservation {
	a.t.Helper()
	r, err := a.rome.Reservation(a.t.Context(), id)
	if err != nil || r.Payload.State != state || r.Payload.Reason != reason {
		a.t.Fatalf("%s %q, %v; want %s %q", r.Payload.State, r.Payload.Reason, err, state, reason)
	}
	return r
}

func (a *age) hold() client.Reservation {
	a.t.Helper()
	r, err := a.rome.Reserve(a.t.Context(), "key", transporttest.Request("5"))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.at(r.ID, api.Held, "")
}

func TestAHoldThatNobodyConfirmsEnds(t *testing.T) {
	a := newAge(t, "milan")
	r := a.hold()
	a.pass(50 * time.Second)
	a.at(r.ID, api.Held, "")
	a.pass(20 * time.Second)
	a.at(r.ID, api.Expired, api.ReasonNotConfirmed)
	if left := available(t, a.rome, "milan"); left != "8" {
		t.Errorf("%s are available", left)
	}
	if _, err := a.rome.Confirm(t.Context(), r.ID, a.rome.Assign(r)); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("confirmed too late: %v", err)
	}
}

// A provider that does not answer is passed over; the last one that does not ends it.
func TestAProviderThatDoesNotAnswer(t *testing.T) {
	a := newAge(t, "milan", "oslo")
	r := a.hold()
	first := r.Payload.Provider
	if _, err := a.rome.Confirm(t.Context(), r.ID, a.rome.Assign(r)); err != nil {
		t.Fatal(err)
	}
	signed, err := a.providers[first].Reservation(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	a.pass(70 * time.Second)
	moved := a.at(r.ID, api.Held, "")
	if moved.Payload.Provider == first || moved.Payload.Generation != 2 ||
		len(moved.Payload.Tried) != 1 || moved.Payload.Tried[0].Reason != api.ReasonNoAnswer {
		t.Errorf("it is %+v", moved.Payload)
	}
	if _, err := a.providers[first].Accept(t.Context(), r.ID,
		a.providers[first].Agree(signed)); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the first accepts too late: %v", err)
	}
	if _, err := a.rome.Confirm(t.Context(), r.ID, a.rome.Assign(moved)); err != nil {
		t.Fatal(err)
	}
	a.pass(70 * time.Second)
	a.at(r.ID, api.Failed, api.ReasonNotAccepted)
}

// A reservation ends at its time; its capacity is back when its provider says so.
func TestAReservationEndsWithItsTime(t *testing.T) {
	a := newAge(t, "milan")
	milan := a.providers["milan"]
	r := a.hold()
	r, err := a.rome.Confirm(t.Context(), r.ID, a.rome.Assign(r))
	if err == nil {
		_, err = milan.Accept(t.Context(), r.ID, milan.Agree(r))
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pass(59 * time.Minute)
	a.at(r.ID, api.Reserved, "")
	a.pass(2 * time.Minute)
	a.at(r.ID, api.Releasing, api.ReasonEnded)
	if left := available(t, a.rome, "milan"); left != "3" {
		t.Errorf("%s are available before milan freed it", left)
	}
	if _, err := milan.Progress(t.Context(), r.ID, api.Released); err != nil {
		t.Fatal(err)
	}
	a.at(r.ID, api.Released, api.ReasonEnded)
	if left := available(t, a.rome, "milan"); left != "8" {
		t.Errorf("%s are available", left)
	}
}
