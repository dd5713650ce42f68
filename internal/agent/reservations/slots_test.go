package reservations

import (
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Of those that wait for a slot, one is over when its turn comes. The next one gets the turn.
func TestASlotIsPassedOn(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "milan"))
	var turns []string
	b.slots = newSlots(func() int { return 1 }, b.turnOf, func(id string) { turns = append(turns, id) })
	if !b.slots.take(b.main, "r-0") || b.slots.take(b.main, "r-1") || b.slots.take(b.main, "r-2") {
		t.Fatal("there is not one slot")
	}
	b.slots.release(b.main)
	if len(turns) != 1 {
		t.Fatalf("%v have a turn", turns)
	}
	if _, err := b.settleAt(t.Context(), b.main, turns[0]); err != nil { // the session shows it no more
		t.Fatal(err)
	}
	if slices.Sort(turns); !slices.Equal(turns, []string{"r-1", "r-2"}) {
		t.Errorf("only %v had a turn", turns)
	}
}

// However few workers there are for each of many sessions, those that do not answer leave one for each other.
func TestSessionsThatDoNotAnswerLeaveAWorker(t *testing.T) {
	for sessions := 1; sessions <= workers; sessions++ {
		if busy := slotsOfSession(sessions) * (sessions - 1); busy >= workers || slotsOfSession(sessions) < 1 {
			t.Errorf("with %d sessions, all but one take %d of %d workers", sessions, busy, workers)
		}
	}
}
