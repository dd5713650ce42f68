package robustness

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// Acknowledged changes survive kill -9, nothing exists twice, and a repeated call changes nothing.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	killedUnderLoad(t, b, 20, cpu(9_000), func(int) { b.kill() })
}

// The same with the market in PostgreSQL. Its server is killed too: then the broker ends by itself.
func TestKilledUnderLoadOnPostgres(t *testing.T) {
	server := startPostgres(t)
	b := newProcess(t)
	_, b.store = server.Schema(t)
	killedUnderLoad(t, b, 12, cpu(6_000), func(round int) {
		if round%3 != 2 {
			b.kill()
			return
		}
		server.Kill()
		b.ends("postgres://broker@")
		if err := server.Launch(); err != nil {
			t.Error(err)
		}
	})
}

func killedUnderLoad(t *testing.T, b *process, rounds int, offered api.Resources, kill func(round int)) {
	b.start()
	l := newLoad(b, 6, 3, offered)
	w := follow(t, l.consumers[0])
	w.begins()
	l.offer()
	l.reject()                     // a broker that has just started again rejects nothing
	reached := map[api.State]int{} // after any of the rounds
	tested := func() bool {
		return l.lost >= rounds && reached[api.Held] > 0 && reached[api.Reserved] > 0 &&
			reached[api.Released] > 0 && reached[api.Rejected] > 0
	}
	for round := 0; round < rounds || !tested() && round < 10*rounds; round++ { // more on a slow machine
		l.offer()
		enough := l.made() + rand.IntN(12) // however slow the machine is
		dead := make(chan struct{})
		time.AfterFunc(time.Duration(20+rand.IntN(400))*time.Millisecond, func() {
			defer close(dead)
			l.waitFor(enough)
			kill(round)
		})
		l.run(t.Context())
		<-dead
		if round%4 == 3 { // killed while it starts
			b.launch()
			time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
			b.kill()
		}
		b.start()
		l.verify(b)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		for _, d := range l.deals {
			reached[d.acknowledged.Payload.State]++
		}
	}
	t.Logf("%d reservations, %d answers lost, acknowledged after the rounds, in all: %v", len(l.deals), l.lost, reached)
	if !tested() {
		t.Error("not everything was tested")
	}
	w.sees(mine(all(t, b.operator), l.consumers[0].ID))
}

// all is what the broker's operator sees.
func all(t *testing.T, operator *client.Client) map[string]client.Reservation {
	t.Helper()
	items, err := operator.Reservations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]client.Reservation, len(items))
	for _, r := range items {
		out[r.ID] = r
	}
	if len(out) != len(items) {
		t.Errorf("%d reservations have %d IDs", len(items), len(out))
	}
	return out
}

func mine(all map[string]client.Reservation, consumer string) map[string]client.Reservation {
	out := map[string]client.Reservation{}
	for id, r := range all {
		if r.Payload.Consumer == consumer {
			out[id] = r
		}
	}
	return out
}

// verify compares what the broker knows after a start with what it acknowledged before.
func (l *load) verify(b *process) {
	l.t.Helper()
	b.balanced()
	known := all(l.t, b.operator)
	l.within(known)
	for _, d := range l.deals {
		if d.acknowledged.ID != "" {
			d.kept(l.t, known[d.acknowledged.ID])
		}
	}
	l.repeat(known)
}

// within demands that no provider is promised more than it offers.
func (l *load) within(known map[string]client.Reservation) {
	l.t.Helper()
	promised := map[string]int64{}
	for _, r := range known {
		if r.Payload.State.Counts() {
			promised[r.Payload.Provider] += millis(r.Payload.Resources)
		}
	}
	for provider, sum := range promised {
		if sum > millis(l.offered) {
			l.t.Errorf("%d milli-CPU of %s are promised, %d are offered", sum, provider, millis(l.offered))
		}
	}
}

// kept demands that now is the reservation as it was acknowledged, or later in its life.
func (d *deal) kept(t *testing.T, now client.Reservation) {
	t.Helper()
	was, is := d.acknowledged.Payload, now.Payload
	switch {
	case was.State == api.Rejected: // it was an answer, and no record
		if now.ID != "" {
			t.Errorf("%s: reservation %s was acknowledged as %s and is recorded as %s", d.key, now.ID, was.State, is.State)
		}
	case now.ID == "":
		t.Errorf("%s: reservation %s was acknowledged as %s and is gone", d.key, d.acknowledged.ID, was.State)
	case slices.Index(api.States, is.State) < slices.Index(api.States, was.State):
		t.Errorf("%s: reservation %s was acknowledged as %s and is %s", d.key, now.ID, was.State, is.State)
	case now.Revision < d.acknowledged.Revision, is.Provider != was.Provider, millis(is.Resources) != millis(was.Resources),
		was.Assignment != "" && is.Assignment != was.Assignment, was.Acceptance != "" && is.Acceptance != was.Acceptance:
		t.Errorf("%s: reservation %s is another one:\nwas %+v\nis  %+v", d.key, now.ID, d.acknowledged, now)
	}
}

// repeat repeats every request that is not over, and all of whose outcome nothing was heard: each
// gives the reservation that it made, and together they made exactly those that are known.
func (l *load) repeat(known map[string]client.Reservation) {
	l.t.Helper()
	made := map[string]string{}
	for _, d := range l.deals {
		id := d.acknowledged.ID
		if !d.done() && d.asked {
			again, err := d.consumer.Reserve(l.t.Context(), d.key, d.request)
			if id == "" && err != nil && api.CodeOf(err) == api.CodeUnavailable {
				continue // it was never recorded, and a broker that has just started will not say no
			}
			if err != nil {
				l.t.Errorf("%s: repeated: %v", d.key, err)
				continue
			}
			if id != "" && id != again.ID {
				l.t.Errorf("%s: made %s, repeated it makes %s", d.key, id, again.ID)
			}
			id = again.ID
			if d.step == 0 && known[id].ID == "" { // it had not been recorded, now it is
				d.acknowledged, known[id] = again, again
			}
		}
		if id == "" {
			continue
		}
		if other := made[id]; other != "" {
			l.t.Errorf("%s and %s both made %s", d.key, other, id)
		}
		made[id] = d.key
	}
	for id := range known {
		if made[id] == "" {
			l.t.Errorf("reservation %s is there, and nobody made it: %+v", id, known[id])
		}
	}
}
