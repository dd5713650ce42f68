package reservations

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// crowd makes a provider's session show many holds of consumer rome.
func (b *brokersOf) crowd(rome, milan *transporttest.Party) (ids []string) {
	for n := range 500 {
		id := fmt.Sprint("rome-", n)
		b.main.Record(transporttest.NewDeal(rome, milan, id, "1m", b.options.Ledger.Now().Go()).Signed())
		ids = append(ids, id)
	}
	return ids
}

// The many reservations of one consumer delay those of another by one turn, in the queue and at a session that is
// busy. The end of one comes before the beginnings.
func TestConsumersTakeTurns(t *testing.T) {
	rome, oslo, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "oslo"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	now := b.options.Ledger.Now().Go()
	ids := append(b.crowd(rome, milan), "oslo-1", "oslo-ends")
	b.main.Record(transporttest.NewDeal(oslo, milan, "oslo-1", "1", now).Signed())
	ending := transporttest.NewDeal(oslo, milan, "oslo-ends", "1", now)
	ending.Signed()
	b.main.Record(ending.Ending(oslo, api.ReasonReleased))
	check := func(what string, next func() string) {
		t.Helper()
		var turns []string
		for range 4 {
			turns = append(turns, next())
		}
		if turns[0] != "oslo-ends" || turns[1] != "rome-0" || turns[2] != "oslo-1" || turns[3] != "rome-1" {
			t.Errorf("%s: the turns are %q", what, turns)
		}
	}

	for _, id := range ids {
		b.Look(id)
	}
	check("the queue", func() string {
		id, _ := b.queue.Get()
		b.queue.Done(id)
		return id
	})

	busy := oneSlot(b)
	for _, id := range ids {
		if b.slots.Take(b.main, id) {
			t.Fatalf("%s does not wait", id)
		}
	}
	check("a session", func() string {
		b.slots.Leave(b.main, *busy)
		return *busy
	})
}

// Where this cluster borrows, the namespaces of the requests take turns, as the Ledger says.
func TestNamespacesTakeTurns(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "rome"))
	note := func(namespace, name string, state api.State) {
		record := &market.Reservation{ID: namespace + name, State: state, Consumer: "rome", Provider: "milan",
			Object: &market.Object{Namespace: namespace, Name: name, UID: name},
			Until:  market.At(b.options.Ledger.Now().Go().Add(time.Hour))}
		b.noteTurn(record)
		b.Look(record.ID)
	}
	for n := range 500 {
		note("noisy", fmt.Sprint(n), api.Held)
	}
	note("quiet", "1", api.Held)
	note("quiet", "-ends", api.Releasing)
	var turns []string
	for range 3 {
		id, _ := b.queue.Get()
		b.queue.Done(id)
		turns = append(turns, id)
	}
	if turns[0] != "quiet-ends" || turns[1] != "noisy0" || turns[2] != "quiet1" {
		t.Errorf("the turns are %q", turns)
	}
	note("quiet", "1", api.Released)
	if _, known := b.turns.Load("quiet1"); known {
		t.Error("the turn of one that is over is kept")
	}
}
