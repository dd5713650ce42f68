package transporttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Pair is a consumer and a provider at one broker, each by its own transport. Both are members, and
// have shown their cards.
type Pair struct {
	Consumer, Provider                     *Party
	ConsumersTransport, ProvidersTransport transport.Broker
}

// Run checks what every transport promises. start makes a new broker with two members.
func Run(t *testing.T, start func(t *testing.T) Pair) {
	for _, c := range []struct {
		name  string
		check func(*testing.T, *suite)
	}{
		{"a reservation's life", life}, {"a refusal", refusal}, {"a change", changes},
		{"repeating any call is harmless", repeats}, {"errors keep their code", codes},
		{"advertisements arrive whole after any change", advertisements},
		{"a watch tells of every change", watches}, {"a watch tells of the catalog",
			watchesCatalog}, {"a watch ends with its context", watchEnds},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			c.check(t, &suite{Pair: p, start: start, ctx: ctx, rome: p.ConsumersTransport, milan: p.ProvidersTransport})
		})
	}
}

type suite struct {
	Pair
	start       func(*testing.T) Pair
	ctx         context.Context
	rome, milan transport.Broker
	number      int64
}

func (s *suite) advertise(t *testing.T, m api.Measurement) {
	t.Helper()
	s.number++
	m.Sequence.Number = s.number
	if err := s.milan.Advertise(s.ctx, m); err != nil {
		t.Fatal(err)
	}
}

// at demands the state that a call led to.
func at(t *testing.T, state api.State, r transport.Reservation, err error) transport.Reservation {
	t.Helper()
	if err != nil || r.Payload.State != state {
		t.Fatalf("%q, %v; want %s", r.Payload.State, err, state)
	}
	return r
}

// signed is a reservation that the consumer signed.
func (s *suite) signed(t *testing.T) transport.Reservation {
	t.Helper()
	s.advertise(t, Measurement(0, "8"))
	r, err := s.rome.Reserve(s.ctx, "key", Request("2"))
	r = at(t, api.Held, r, err)
	r, err = s.rome.Confirm(s.ctx, r.ID, s.Consumer.Assign(r))
	return at(t, api.Held, r, err)
}

func life(t *testing.T, s *suite) {
	evaluation, err := s.rome.Evaluate(s.ctx, Request("2"))
	if err != nil || evaluation.Decision.Candidates != 0 {
		t.Fatalf("before anyone advertised: %+v, %v", evaluation, err)
	}
	id := s.signed(t).ID
	shown, err := s.milan.Reservation(s.ctx, id)
	shown = at(t, api.Held, shown, err)
	r, err := s.milan.Accept(s.ctx, id, s.Provider.Agree(shown))
	at(t, api.Reserved, r, err)
	r, err = s.rome.Progress(s.ctx, id, api.Active)
	r = at(t, api.Active, r, err)
	r, err = s.rome.Release(s.ctx, id, s.Consumer.End(r, api.ReasonReleased))
	at(t, api.Releasing, r, err)
	r, err = s.milan.Progress(s.ctx, id, api.Released)
	at(t, api.Released, r, err)
	for who, b := range map[string]transport.Broker{"consumer": s.rome, "provider": s.milan} {
		if all, err := b.Reservations(s.ctx); err != nil || len(all) != 1 || all[0].ID != id {
			t.Errorf("the %s has %d reservations, %v", who, len(all), err)
		}
	}
}

func changes(t *testing.T, s *suite) {
	id := s.signed(t).ID
	shown, err := s.milan.Reservation(s.ctx, id)
	r, err := s.milan.Accept(s.ctx, id, s.Provider.Agree(at(t, api.Held, shown, err)))
	at(t, api.Reserved, r, err)
	mine, err := s.rome.Reservation(s.ctx, id)
	next := at(t, api.Reserved, mine, err)
	for _, cpu := range []string{"6", "1", "7"} {
		next.Payload.Generation, next.Payload.Resources = next.Payload.Generation+1, CPU(cpu)
		signed := s.Consumer.Assign(next)
		for range 2 {
			r, err = s.rome.Confirm(s.ctx, id, signed)
			if r = at(t, api.Reserved, r, err); !r.Payload.Change.Pending() ||
				r.Payload.Change.Assignment != signed || r.Payload.Generation == next.Payload.Generation {
				t.Fatalf("%+v", r.Payload)
			}
		}
		if cpu == "7" {
			r, err = s.milan.Refuse(s.ctx, id, api.Refusal{Generation: next.Payload.Generation,
				Reason: api.ReasonPolicy, Message: "no"})
			if r = at(t, api.Reserved, r, err); r.Payload.Change.Pending() || r.Payload.Change.Message != "no" {
				t.Fatalf("%+v", r.Payload)
			}
			break
		}
		offered := r
		offered.Payload.Generation, offered.Payload.Assignment = next.Payload.Generation, signed
		agreed := s.Provider.Agree(offered)
		for range 2 {
			r, err = s.milan.Accept(s.ctx, id, agreed)
			if r = at(t, api.Reserved, r, err); r.Payload.Change != nil ||
				r.Payload.Assignment != signed || r.Payload.Acceptance != agreed {
				t.Fatalf("%+v", r.Payload)
			}
		}
	}
	s.available(t, "7")
}

func refusal(t *testing.T, s *suite) {
	id := s.signed(t).ID
	s.number++
	fresh := Measurement(s.number, "1")
	r, err := s.milan.Refuse(s.ctx, id, api.Refusal{Generation: 1,
		Reason: api.ReasonInsufficient, Message: "no room", Advertisement: &fresh})
	if err != nil || r.Payload.State != api.Failed { // there is nobody else
		t.Fatalf("%s, %v", r.Payload.State, err)
	}
	mine, err := s.rome.Reservation(s.ctx, id)
	want := []api.Tried{{Provider: s.Provider.ID, Reason: api.ReasonInsufficient, Message: "no room"}}
	if diff := cmp.Diff(want, mine.Payload.Tried); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	s.available(t, "1")
}

func (s *suite) available(t *testing.T, want string) {
	t.Helper()
	c, err := s.rome.Cluster(s.ctx, s.Provider.ID)
	if got := c.Payload.Pools[api.GeneralPool].Available["cpu"]; err != nil || got.String() != want {
		t.Errorf("available %s, want %s, %v", got.String(), want, err)
	}
}

func repeats(t *testing.T, s *suite) {
	signed := s.signed(t)
	again, err := s.rome.Reserve(s.ctx, "key", Request("2"))
	if at(t, api.Held, again, err); again.ID != signed.ID {
		t.Errorf("the same key made %s and %s", signed.ID, again.ID)
	}
	again, err = s.rome.Confirm(s.ctx, signed.ID, signed.Payload.Assignment)
	at(t, api.Held, again, err)
	yes := s.Provider.Agree(signed)
	end := s.Consumer.End(signed, api.ReasonReleased)
	for range 2 {
		r, err := s.milan.Accept(s.ctx, signed.ID, yes)
		at(t, api.Reserved, r, err)
	}
	for range 2 {
		r, err := s.rome.Release(s.ctx, signed.ID, end)
		at(t, api.Releasing, r, err)
	}
	for range 2 {
		r, err := s.milan.Progress(s.ctx, signed.ID, api.Released)
		at(t, api.Released, r, err)
	}
}

func codes(t *testing.T, s *suite) {
	signed := s.signed(t)
	invalid := Request("2")
	invalid.Where = "region =="
	for name, c := range map[string]struct {
		call func() error
		want api.Code
	}{
		"unknown": {func() error { _, err := s.rome.Reservation(s.ctx, "r-unknown"); return err }, api.CodeNotFound},
		"invalid": {func() error { _, err := s.rome.Reserve(s.ctx, "other", invalid); return err }, api.CodeInvalid},
		"reused": {func() error { _, err := s.rome.Reserve(s.ctx, "key", Request("1")); return err },
			api.CodeKeyReused},
		"not a party": {func() error { _, err := s.rome.Progress(s.ctx, signed.ID, api.Released); return err },
			api.CodeForbidden},
		"not signed so": {func() error { _, err := s.milan.Accept(s.ctx, signed.ID, "x"); return err }, api.CodeBadSignature},
		"too early": {func() error { _, err := s.rome.Progress(s.ctx, signed.ID, api.Active); return err },
			api.CodeConflict},
	} {
		err := c.call()
		if e, ok := errors.AsType[*api.Error](err); c.want != "" && (!ok || e.Code != c.want || e.Detail == "") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.rome.Reservations(cancelled); err == nil {
		t.Error("a call whose context ended is answered")
	}
}

func advertisements(t *testing.T, s *suite) {
	m := Measurement(0, "8")
	m.Pools["gpu"] = api.Pool{Shared: CPU("2"), Allocatable: CPU("2")}
	s.advertise(t, m)
	s.available(t, "8")
	s.advertise(t, m) // nothing changed: proof of life
	s.available(t, "8")
	general := m.Pools[api.GeneralPool]
	general.Allocated = CPU("3")
	general.Accounts = map[string]api.AccountUse{"oslo": {Used: CPU("1")}}
	m.Pools[api.GeneralPool] = general
	s.advertise(t, m)
	s.available(t, "4")
	general.Allocated, general.Accounts = nil, nil // all of it is gone again
	m.Pools = map[string]api.Pool{api.GeneralPool: general}
	s.advertise(t, m)
	s.available(t, "8")
	if c, err := s.rome.Cluster(s.ctx, s.Provider.ID); err != nil || len(c.Payload.Pools) != 1 {
		t.Errorf("pools %v, %v", c.Payload.Pools, err)
	}
	m.Terms = nil // nothing is shared any more
	s.advertise(t, m)
	if _, err := s.rome.Cluster(s.ctx, s.Provider.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a cluster that shares nothing is shown: %v", err)
	}
}
