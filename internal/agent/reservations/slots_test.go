package reservations

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/turns"
)

// oneSlot makes each session have one slot. It is taken at the main one by the reservation that is returned, then by
// each that waited.
func oneSlot(b *brokersOf) (busy *string) {
	first := "first"
	b.slots = turns.NewSlots[*session.Session](turns.SlotsOptions[string]{
		Workers: 1, Most: 1, Places: func() int { return 1 }, Find: b.turnOf, Again: func(id string) { first = id },
	})
	b.slots.Take(b.main, first)
	return &first
}

// Of those that wait for a slot, one is over when its turn comes. The next one gets the turn.
func TestASlotIsPassedOn(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "milan"))
	busy := oneSlot(b)
	if b.slots.Take(b.main, "r-1") || b.slots.Take(b.main, "r-2") {
		t.Fatal("there is not one slot")
	}
	b.slots.Leave(b.main, "first")
	if *busy != "r-1" {
		t.Fatalf("%s has the slot", *busy)
	}
	if _, err := b.settleAt(t.Context(), b.main, "r-1"); err != nil { // the session shows it no more
		t.Fatal(err)
	}
	if *busy != "r-2" {
		t.Errorf("%s has the slot", *busy)
	}
}

// A session is closed while a reservation waits there. What waits at another session is served.
func TestASlotOfAClosedSession(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "milan"))
	busy := oneSlot(b)
	b.slots.Take(b.main, "r-1")
	b.options.Sessions.Remove(b.main)
	if err := b.settle(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if *busy != "r-1" {
		t.Errorf("%s has the slot", *busy)
	}
	if err := b.settle(t.Context(), "r-1"); err != nil {
		t.Fatal(err)
	}
	if !b.slots.Take(b.main, "r-2") {
		t.Error("a slot is lost")
	}
}
