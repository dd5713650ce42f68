package exchange_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

// A thousand consumers want the last unit: one gets it, and each of the others is told why it does not.
func TestThousandConsumersForTheLastUnit(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	x.advertise("rome", 2, "1")
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for i := range 1000 {
		consumer := fmt.Sprint("c", i)
		x.join(consumer)
		all.Go(func() {
			h := hold(fmt.Sprint("r", i), 1)
			h.Consumer = consumer
			switch out, err := x.Do(t.Context(), h); {
			case err == nil && out.Reservation.State == api.Held:
				won.Add(1)
			case api.CodeOf(err) == api.CodeInsufficient:
				lost.Add(1)
			default:
				t.Errorf("%s: %v", consumer, err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 999 || x.available("rome") != 0 {
		t.Errorf("%d won, %d lost, %d left", won.Load(), lost.Load(), x.available("rome"))
	}

	x.advertise("rome", 3, "0") // and then it shrinks
	if got := x.available("rome"); got != -1000 {
		t.Errorf("%d left of what shrank", got)
	}
	x.fails(api.CodeInsufficient, hold("r", 1))
}

// The same request, sent many times at once by an impatient client, is one reservation.
func TestImpatientClient(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	var all sync.WaitGroup
	ids := make([]string, 100)
	for i := range ids {
		all.Go(func() {
			h := hold(fmt.Sprint("r", i), 1)
			h.Key = "the same"
			if out, err := x.Do(t.Context(), h); err != nil {
				t.Error(err)
			} else {
				ids[i] = out.Reservation.ID
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("made %v", ids)
		}
	}
	if x.available("rome") != 7000 {
		t.Errorf("%d left", x.available("rome"))
	}
}

// Of two exchanges over one journal, the one that is behind cannot write, and says nothing was done.
func TestTwoExchangesOverOneJournal(t *testing.T) {
	j := newMemory()
	first := founded(t, j, exchange.Options{})
	second := start(t, j, exchange.Options{})
	second.advertise("rome", 1, "8")
	first.must(hold("a", 5))
	second.fails(api.CodeUnavailable, hold("b", 5))
	if err := <-second.ended; err == nil {
		t.Error("the loser goes on")
	}
	first.must(hold("c", 3))
	third := start(t, j, exchange.Options{})
	if a, b, c := third.reservation("a"), third.reservation("b"), third.reservation("c"); a.State != api.Held ||
		b.State != "" || c.State != api.Held {
		t.Errorf("the journal has a %s, b %s, c %s", a.State, b.State, c.State)
	}
}

// Two live agents stand at one gate, over one Ledger, and what is left is enough for one promise:
// they give one.
func TestTwoAgentsAtOneGate(t *testing.T) {
	j, clock := newMemory(), newClock()
	var agents []*running
	for range 2 {
		x := start(t, j, exchange.Options{Self: "rome", Resume: true, Clock: clock})
		x.advertise("rome", 1, "8")
		agents = append(agents, x)
	}
	for round := range 20 {
		var promised atomic.Int64
		var all sync.WaitGroup
		for n, x := range agents {
			all.Go(func() {
				admit := market.Admit{Size: amounts.List{{Resource: "cpu", Value: 5000}},
					Document: "doc", BindsUntil: noon + 90_000, Assignment: api.Assignment{
						Reservation: fmt.Sprintf("r%d-%d", round,
							n), Generation: 1, Consumer: "paris", Provider: "rome", Pool: api.GeneralPool, Until: (noon + 1_000_000).Meta()}}
				for {
					_, err := x.Do(t.Context(), admit)
					switch api.CodeOf(err) {
					case api.CodeUnavailable: // the other was faster: repeat
						continue
					case api.CodeInsufficient:
						return
					}
					if err != nil {
						t.Error(err)
					}
					promised.Add(1)
					return
				}
			})
		}
		all.Wait()
		if promised.Load() != 1 {
			t.Fatalf("round %d: %d promises", round, promised.Load())
		}
		for n := range agents { // any agent that knows it takes it back
			for _, c := range []market.Command{
				market.Release{ID: fmt.Sprintf("r%d-%d", round, n), By: "rome"}, market.Free{ID: fmt.Sprintf("r%d-%d", round, n),
					Provider: "rome"}} {
				for {
					if _, err := agents[0].Do(t.Context(), c); api.CodeOf(err) != api.CodeUnavailable {
						break
					}
				}
			}
		}
	}
}

// Readers and writers at full speed: for the race detector, and the books stay right.
func TestEverybodyAtOnce(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{SnapshotEvery: 50})
	w := x.watch("paris", "", 0)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 50 {
				id := fmt.Sprintf("r%d-%d", n, i)
				if _, err := x.Do(t.Context(), hold(id, 2)); err == nil {
					x.must(market.Release{ID: id, By: "paris", Generation: 1})
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if left := x.available("rome"); left < 0 || left > 8000 {
					t.Errorf("%d left", left)
				}
				if err := x.Read(t.Context(), func(s *market.State) {
					if wrong := s.Imbalance(); wrong != 0 {
						t.Errorf("imbalance %d", wrong)
					}
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if x.available("rome") != 8000 {
		t.Errorf("%d left", x.available("rome"))
	}
	told(t, w)
}
