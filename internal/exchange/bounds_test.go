package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/raced"
)

// bounded is a journal that refuses batches of more bytes than most, as MaxBatch makes every
// journal do, and notes the largest.
type bounded struct {
	journal.Journal
	mu            sync.Mutex
	most, largest int
	// left is after how many appends its process is killed; negative: never.
	left int
}

var errKilled = errors.New("killed")

func (j *bounded) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := 0
	for _, e := range events {
		size += 4 + len(e)
	}
	if j.left == 0 {
		return journal.Head{}, errKilled
	}
	j.left--
	if j.most > 0 && size > j.most {
		return journal.Head{}, fmt.Errorf("%w: a batch takes %d bytes, want 1 to %d", journal.ErrInvalid, size, j.most)
	}
	j.largest = max(j.largest, size)
	return j.Journal.Append(ctx, after, events)
}

// until kills the process after so many more appends, and forgets the largest.
func (j *bounded) until(left int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left, j.largest = left, 0
}

// spawned is a market with n holds and n reservations of 1m CPU of paris at rome, of about 3 KB each.
func spawned(t *testing.T, j journal.Journal, n int, o exchange.Options) *running {
	t.Helper()
	x := founded(t, j, o)
	x.advertise("rome", 2, "1000")
	document := strings.Repeat("d", 1500)
	for i := range n {
		held, bound := hold(fmt.Sprint("held", i), 1), hold(fmt.Sprint("bound", i), 1)
		held.Size, bound.Size = amounts.List{{Resource: "cpu", Value: 1}}, amounts.List{{Resource: "cpu", Value: 1}}
		x.must(held)
		x.must(market.Confirm{ID: held.ID, Consumer: "paris", Generation: 1, Document: document})
		x.must(bound)
		x.must(market.Confirm{ID: bound.ID, Consumer: "paris", Generation: 1, Document: document})
		x.must(market.Accept{ID: bound.ID, Provider: "rome", Generation: 1, Document: document})
	}
	return x
}

// try carries out what may fail because the journal does.
func (x *running) try(c market.Command) { _, _ = x.Do(context.Background(), c) }

// states counts the reservations by state and reason.
func (x *running) states() map[string]int {
	x.t.Helper()
	out := map[string]int{}
	if err := x.Read(context.Background(), func(s *market.State) {
		for _, r := range s.All() {
			out[fmt.Sprintf("%s %s %d", r.State, r.Reason, r.Generation)]++
		}
	}); err != nil {
		x.t.Fatal(err)
	}
	return out
}

// What one command about a member leads to for all of its reservations, and what a long silence
// brings, is appended in pieces. The pieces follow each other without a caller. Killed between two
// of them, the next start does the rest, and a replay gives the same.
func TestWhatConcernsManyIsAppendedInPieces(t *testing.T) {
	const n, piece = 200, 32 << 10
	pass := func(c *clock) { c.pass(20*time.Second, 20*time.Second) }
	for name, c := range map[string]struct {
		begin func(*running, *clock)
		want  map[string]int
		steps int // 1: after a start time has to pass, too
	}{
		"the consumer's next key": {
			func(x *running, _ *clock) {
				x.try(market.PutCard{Card: api.Card{Cluster: "paris", Key: "k2", Number: 1},
					Signed: "s", Former: []market.Former{{Key: "k-paris"}}})
			},
			map[string]int{"Held  2": n, "Reserved  1": n}, 0,
		},
		"the provider is removed": {
			func(x *running, _ *clock) { x.try(market.SetMember{Cluster: "rome", State: api.MemberRemoved}) },
			map[string]int{"Failed MemberRemoved 1": n, "Released MemberRemoved 1": n}, 0,
		},
		"the consumer is removed": {
			func(x *running, _ *clock) { x.try(market.SetMember{Cluster: "paris", State: api.MemberRemoved}) },
			map[string]int{"Releasing MemberRemoved 1": 2 * n}, 0,
		},
		"all ends at once": {
			func(x *running, c *clock) {
				for range 190 { // an hour, in steps that are no pause
					pass(c)
					_ = x.Observe(context.Background(), "rome", measured(x.t, int64(10+c.passed/time.Second), "1000"), true)
				}
			},
			map[string]int{"Failed NotAccepted 1": n, "Releasing EndReached 1": n}, 1,
		},
	} {
		for _, left := range []int{-1, 1} {
			t.Run(fmt.Sprintf("%s, killed after %d", name, left), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					j, clock := &bounded{Journal: newMemory(), left: -1}, newClock()
					x := spawned(t, j, n, exchange.Options{Clock: clock, AppendBytes: piece})
					j.until(-1)
					if left >= 0 {
						j.until(left)
					}
					c.begin(x, clock)
					synctest.Wait() // no caller, and no tick of the clock, brings the rest
					if left >= 0 {
						if err := <-x.ended; !errors.Is(err, errKilled) {
							t.Fatalf("ended with %v", err)
						}
						j.until(-1)
						x = start(t, j, exchange.Options{Clock: clock, AppendBytes: piece})
						x.look() // what is owed is done although expiry waits
						synctest.Wait()
						for range 6 * c.steps {
							pass(clock)
							x.look()
							synctest.Wait()
						}
					}
					if got := x.states(); fmt.Sprint(got) != fmt.Sprint(c.want) {
						t.Errorf("%v, want %v", got, c.want)
					}
					if j.largest > piece+8<<10 || j.largest < piece/2 {
						t.Errorf("an append took %d bytes, of at most about %d", j.largest, piece)
					}
					want := x.snapshot()
					_ = x.stop()
					if got := start(t, j, exchange.Options{Clock: clock}).snapshot(); got != want {
						t.Error("a replay gives another state")
					}
				})
			})
		}
	}
}

// An order whose events a journal could not keep is refused before anything of it is true; others
// of its batch are not concerned.
func TestAnOrderThatIsTooLarge(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{})
		answers := x.batch(j, fault{}, x.order(hold("a", 1)),
			x.order(market.Enroll{Cluster: "oslo", Key: "k", Source: strings.Repeat("x", 40<<20)}), x.order(hold("b", 1)))
		if answers[0] != nil || api.CodeOf(answers[1]) != api.CodeTooLarge || answers[2] != nil {
			t.Errorf("answered %v", answers)
		}
		if x.View().Listing("oslo") != nil || x.available("rome") != 6000 {
			t.Error("something of it is true")
		}
		want := x.snapshot()
		_ = x.stop()
		if got := start(t, j, exchange.Options{}).snapshot(); got != want {
			t.Error("a replay gives another state")
		}
	})
}

// A batch that a journal refuses, having written nothing, fails only the orders that it would
// refuse alone. The exchange goes on.
func TestARefusedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &bounded{Journal: newMemory(), left: -1}
		slow := &faulty{Journal: j}
		x := founded(t, slow, exchange.Options{})
		x.must(hold("before", 1))
		w, err := x.Watch(t.Context(), "paris", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		j.most = 4 << 10
		guilty := hold("guilty", 1)
		guilty.Request = &api.Request{Where: strings.Repeat("x", 5<<10)}
		wait := make(chan struct{})
		slow.appends = []fault{{wait: wait}}
		answers := make([]error, 13)
		var all sync.WaitGroup
		all.Go(func() { x.must(market.Release{ID: "before", By: "paris", Generation: 1}) })
		synctest.Wait()
		for i := range answers {
			order := hold(fmt.Sprint("r", i), 0)
			order.Size, order.Request = amounts.List{{Resource: "cpu",
				Value: 100}}, &api.Request{Where: strings.Repeat("x", 500)}
			switch i {
			case 5:
				order = guilty
			case 12: // it is rejected, which nothing is written of
				order.Candidates, order.Key = nil, ""
			}
			all.Go(func() { _, answers[i] = x.Do(context.Background(), order) })
			synctest.Wait()
		}
		observed := make(chan error, 1)
		all.Go(func() { observed <- x.Observe(context.Background(), "rome", measured(t, 2, "4"), true) })
		synctest.Wait()
		close(wait)
		all.Wait()
		for i, err := range answers {
			if want := map[bool]api.Code{true: api.CodeTooLarge}[i == 5]; api.CodeOf(err) != want && (err != nil || want != "") {
				t.Errorf("order %d is answered %v", i, err)
			}
		}
		if err := <-observed; err != nil {
			t.Errorf("an advertisement in it is answered %v", err)
		}
		if got := x.available("rome"); got != 4000-1100 {
			t.Errorf("%d left", got)
		}
		told, _, err := w.Next(t.Context())
		if err != nil || slices.ContainsFunc(told, func(r *market.Reservation) bool { return r.ID == "guilty" }) ||
			len(told) < 12 {
			t.Errorf("a watch tells %d, %v", len(told), err)
		}
		want := x.snapshot()
		if err := x.stop(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if got := start(t, j, exchange.Options{}).snapshot(); got != want {
			t.Error("a replay gives another state")
		}
	})
}

// An owner that waits for a snapshot on a slow disk is not taken for one that stands still.
func TestAwaitedSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory(), slow: make(chan struct{})}
		x := founded(t, j, exchange.Options{SnapshotEvery: 5})
		for i := range 6 {
			x.must(hold(fmt.Sprint("r", i), 1))
		}
		synctest.Wait()
		if j.snapshots.Load() == 0 {
			t.Fatal("no snapshot is on its way")
		}
		j.appends = []fault{{before: journal.ErrInvalid}}
		answer := make(chan error, 1)
		go func() { // the batch is refused, and the journal loaded again, once nobody writes to it
			_, err := x.Do(context.Background(), hold("after", 1))
			answer <- err
		}()
		time.Sleep(5 * time.Minute)
		if busy := x.Busy(); busy > 5*time.Second {
			t.Errorf("it has been busy for %s", busy)
		}
		close(j.slow)
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}
