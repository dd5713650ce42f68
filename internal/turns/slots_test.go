package turns_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/internal/turns"
)

// crew has slots at places, and what they made a worker serve again.
type crew struct {
	*turns.Slots[string, item]
	again []item
}

func newCrew(workers, most, places int) *crew {
	c := &crew{}
	c.Slots = turns.NewSlots[string](turns.SlotsOptions[item]{
		Workers: workers, Most: most, Places: func() int { return places },
		Find:  func(i item) turns.Turn { return turns.Turn{Party: i.party} },
		Again: func(i item) { c.again = append(c.again, i) },
	})
	return c
}

// fill takes slots of a place until one has to wait.
func (c *crew) fill(place string) (taken int) {
	for c.Take(place, item{place, taken}) {
		taken++
	}
	return taken
}

// However many places there are, those that do not answer leave workers for each other.
func TestPlacesThatDoNotAnswerLeaveAWorker(t *testing.T) {
	const workers, most = 32, 8
	for places := 1; places <= workers; places++ {
		c, busy := newCrew(workers, most, places), 0
		for n := range places {
			taken := c.fill(fmt.Sprint("place-", n))
			if taken < 1 || taken > most || busy+taken > workers {
				t.Errorf("with %d places, %d of %d workers are busy, and the next place takes %d", places, busy, workers, taken)
			}
			busy += taken
		}
	}
}

// A slot goes to the item whose turn it is, which keeps it until it leaves. Nobody else takes it meanwhile.
func TestASlotIsHandedOver(t *testing.T) {
	c := newCrew(1, 1, 1)
	noisy, also, quiet := item{"noisy", 1}, item{"noisy", 2}, item{"quiet", 1}
	c.Take("a", item{})
	for _, one := range []item{noisy, also, quiet} {
		if c.Take("a", one) {
			t.Fatalf("%v does not wait", one)
		}
	}
	if n, waits := c.Before(quiet); n != 1 || !waits {
		t.Errorf("it waits for %d others: %v", n, waits)
	}
	for _, one := range []item{{}, noisy, quiet} {
		c.Leave("a", one)
	}
	if !slices.Equal(c.again, []item{noisy, quiet, also}) {
		t.Errorf("served again: %v", c.again)
	}
	if c.Take("a", noisy) || !c.Take("a", also) {
		t.Error("the slot is not with the one that got it")
	}
}

// An item that goes to another place, or needs none any more, keeps no slot and no turn.
func TestAnItemLeavesOtherPlaces(t *testing.T) {
	c := newCrew(2, 1, 2)
	one, next, last := item{"x", 1}, item{"x", 2}, item{"x", 3}
	c.Take("a", one)
	c.Take("a", next)
	c.Take("a", last)
	c.Keep(next, "b") // it does not wait at a any more
	c.Take("b", next)
	c.Keep(one)
	if !slices.Equal(c.again, []item{last}) {
		t.Errorf("served again: %v", c.again)
	}
	c.Keep(last, "a")
	if c.Take("a", one) {
		t.Error("a slot that is kept is taken")
	}
}
