package turns_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/bourse-dev/bourse/internal/turns"
)

// item is one of a party.
type item struct {
	party string
	n     int
}

// crowded is a queue in which 2,000 items of party noisy wait.
type crowded struct {
	workqueue.TypedRateLimitingInterface[item]
	order *turns.Queue[item]
	ends  map[item]bool
}

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	c := &crowded{ends: map[item]bool{}}
	c.order = turns.New(func(i item) turns.Turn { return turns.Turn{Party: i.party, Ends: c.ends[i]} })
	c.TypedRateLimitingInterface = c.order.Workqueue("", nil, workqueue.DefaultTypedControllerRateLimiter[item]())
	t.Cleanup(c.ShutDown)
	for n := range 2000 {
		c.Add(item{"noisy", n})
	}
	return c
}

// turnOf returns how many items are served before one, and with it.
func (c *crowded) turnOf(one item) int {
	for n := 1; c.Len() > 0; n++ {
		next, _ := c.Get()
		c.Done(next)
		if next == one {
			return n
		}
	}
	return 0
}

func TestPartiesTakeTurns(t *testing.T) {
	c := newCrowded(t)
	c.Add(item{"quiet", 0})
	c.Add(item{"quiet", 1})
	for n := range 2 {
		if turn := c.turnOf(item{"quiet", n}); turn == 0 || turn > 2 {
			t.Errorf("%d has turn %d, want at most 2", n, turn)
		}
	}
	if n := c.Len(); n != 1998 {
		t.Errorf("%d items wait, want 1998", n)
	}
}

func TestAnEndComesFirst(t *testing.T) {
	c := newCrowded(t)
	for _, end := range []item{{"noisy", 1999}, {"quiet", 0}} { // it waits; it is new
		c.ends[end] = true
		c.Add(end)
		if n := c.turnOf(end); n == 0 || n > 2 {
			t.Errorf("the end of %v has turn %d, want at most 2", end, n)
		}
	}
}

func TestEndsDoNotStopBeginnings(t *testing.T) {
	c := newCrowded(t)
	for n := range 2000 {
		c.ends[item{"noisy", n}] = true
		c.Add(item{"noisy", n})
	}
	c.Add(item{"quiet", 0})
	if n := c.turnOf(item{"quiet", 0}); n == 0 || n > 2 {
		t.Fatalf("a beginning has turn %d, want at most 2", n)
	}
	for range 1999 {
		next, _ := c.Get()
		c.Done(next)
	}
	if n := c.Len(); n != 0 {
		t.Errorf("%d items wait, want none", n)
	}
}

// How many items are before one is what then happens, also while others end.
func TestHowManyAreBefore(t *testing.T) {
	q := turns.New(func(i item) turns.Turn { return turns.Turn{Party: i.party, Ends: i.party == "ending"} })
	parties := map[string]int{"a": 5, "b": 2, "c": 7, "ending": 4}
	for party, n := range parties {
		for i := range n {
			q.Push(item{party, i})
		}
	}
	want := map[item]int{}
	for served := 0; q.Len() > 0; served++ {
		for party, n := range parties {
			for i := range n {
				one := item{party, i}
				before, waits := q.Before(one)
				if !waits {
					continue
				}
				if want[one] == 0 {
					want[one] = served + before
				}
				if want[one] != served+before {
					t.Fatalf("%v: %d before it after %d were served, and %d at first", one, before, served, want[one])
				}
			}
		}
		next := q.Pop()
		if n, known := want[next]; known && n != served {
			t.Errorf("%v has turn %d, want %d", next, served, n)
		}
	}
	if len(want) != 14 {
		t.Errorf("%d items waited that end nothing, want 14", len(want))
	}
}

func TestRemove(t *testing.T) {
	q := turns.New(func(i item) turns.Turn { return turns.Turn{Party: i.party, Ends: i.n == 0} })
	for n := range 6 {
		q.Push(item{fmt.Sprint(n % 2), n})
	}
	for _, gone := range []item{{"0", 0}, {"1", 1}, {"1", 3}, {"1", 5}, {"1", 7}} {
		q.Remove(gone)
	}
	for _, want := range []item{{"0", 2}, {"0", 4}} {
		if got := q.Pop(); got != want {
			t.Errorf("%v is next, want %v", got, want)
		}
	}
	if q.Len() != 0 {
		t.Errorf("%d items wait", q.Len())
	}
}
