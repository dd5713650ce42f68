package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// faulty is a journal that can be slow, and fail.
type faulty struct {
	journal.Journal
	mu      sync.Mutex
	appends []fault // of the next appends
	loads   []error // of the next loads
	// snapshot is the error of every snapshot, slow what they wait for.
	snapshot  error
	slow      chan struct{}
	snapshots atomic.Int64 // how many began
}

// fault is what happens to an append: it waits, it fails and writes nothing, it writes and fails.
type fault struct {
	wait          chan struct{}
	before, after error
}

func (j *faulty) Append(ctx context.Context, at journal.Head, events [][]byte) (journal.Head, error) {
	j.mu.Lock()
	f := fault{}
	if len(j.appends) > 0 {
		f, j.appends = j.appends[0], j.appends[1:]
	}
	j.mu.Unlock()
	if f.wait != nil {
		<-f.wait
	}
	if f.before != nil {
		return journal.Head{}, f.before
	}
	head, err := j.Journal.Append(ctx, at, events)
	return head, errors.Join(err, f.after)
}

func (j *faulty) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.loads) > 0 {
		err := j.loads[0]
		j.loads = j.loads[1:]
		return journal.Head{}, err
	}
	return j.Journal.Load(ctx, onSnapshot, onRecord)
}

func (j *faulty) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	j.snapshots.Add(1)
	if j.slow != nil {
		<-j.slow
	}
	if j.snapshot != nil {
		return j.snapshot
	}
	return j.Journal.Snapshot(ctx, head, write)
}

var errDisk = errors.New("input/output error")

// batch makes orders one batch, to whose append something happens: they gather while the one before them is
// being written. It returns what each was answered. It runs in a bubble of package synctest.
func (x *running) batch(j *faulty, f fault, orders ...func() error) []error {
	first := fault{wait: make(chan struct{})}
	j.mu.Lock()
	j.appends = []fault{first, f}
	j.mu.Unlock()
	batches, answers := x.Stats().Batches, make([]error, len(orders))
	var all sync.WaitGroup
	all.Go(func() {
		x.must(market.CreateToken{Token: market.Token{ID: fmt.Sprint("before batch ", batches), Expires: 1 << 50}})
	})
	synctest.Wait()
	for i, order := range orders {
		all.Go(func() { answers[i] = order() })
		synctest.Wait()
	}
	close(first.wait)
	all.Wait()
	if got := x.Stats().Batches - batches; got != 2 {
		x.t.Errorf("not 2 batches, but %d", got)
	}
	return answers
}

func (x *running) order(c market.Command) func() error {
	return func() error { _, err := x.Do(context.Background(), c); return err }
}

// When an append fails in the middle of everything, nobody of its batch is told of a success, nobody sees
// what was not written, and a file journal's exchange ends.
func TestFailedAppend(t *testing.T) {
	for name, c := range map[string]struct {
		fault   fault
		written bool
	}{
		"nothing was written":       {fault{before: errDisk}, false},
		"all was, but who knows it": {fault{after: errDisk}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &faulty{Journal: newMemory()}
				x := founded(t, j, exchange.Options{})
				x.must(hold("first", 1))
				w, err := x.Watch(t.Context(), "paris", "", 0)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				revision := x.View().Revision
				answers := x.batch(j, c.fault, x.order(hold("a", 2)), x.order(hold("first", 1)), x.order(hold("too large", 9)),
					func() error { return x.Observe(t.Context(), "rome", measured(t, 2, "4"), true) },
					func() error {
						return x.Read(t.Context(), func(s *market.State) {
							if s.Reservation("a") != nil || s.Reservation("first").State != api.Held {
								t.Error("somebody saw what was not written, or not what was")
							}
						})
					})
				for i, err := range answers[:4] {
					if api.CodeOf(err) != api.CodeUnavailable {
						t.Errorf("order %d was answered %v", i, err)
					}
				}
				if answers[4] != nil {
					t.Errorf("who only looked was answered %v", answers[4])
				}
				if err := <-x.ended; !errors.Is(err, errDisk) {
					t.Errorf("ended with %v", err)
				}
				if x.View().Revision != revision+1 || x.available("rome") != 7000 || x.Stats().Failures != 1 {
					t.Errorf("published: revision %d after %d, %d left", x.View().Revision, revision, x.available("rome"))
				}
				if changes, _, err := w.Next(t.Context()); !errors.Is(err, exchange.ErrClosed) {
					t.Errorf("the watch tells %v, %v", changes, err)
				}
				x.fails(api.CodeUnavailable, hold("b", 1))

				x = start(t, j, exchange.Options{})
				x.advertise("rome", 1, "8")
				if r := x.reservation("a"); (r.State == api.Held) != c.written {
					t.Errorf("the journal has it as %q", r.State)
				}
				if x.reservation("first").State != api.Held {
					t.Error("what was acknowledged is lost")
				}
				again := hold("another ID", 2)
				again.Key = "key of a"
				if out := x.must(again); (len(out.Events) == 0) != c.written || x.available("rome") != 5000 {
					t.Errorf("repeated: %d events, %d left", len(out.Events), x.available("rome"))
				}
			})
		})
	}
}

// Who only looks waits for the commit that is on its way, and for no other.
func TestLooksWaitForNoCommitOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{})
		disk := fault{wait: make(chan struct{})}
		var looked atomic.Bool
		time.AfterFunc(time.Second, func() { // time goes on once all wait for the disk
			if !looked.Load() {
				t.Error("a look waited for the commit of others of its batch")
			}
			close(disk.wait)
		})
		x.batch(j, disk, x.order(hold("a", 2)),
			func() error { return x.Read(t.Context(), func(*market.State) { looked.Store(true) }) })
	})
}

// Over a journal that others write to, too, an exchange that lost the race takes in what they wrote
// and goes on: what was measured is kept, those who watch are told everything again, and the time
// is still its own.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, clock := newMemory(), newClock()
		j := &faulty{Journal: shared}
		x := founded(t, j, exchange.Options{Resume: true, Clock: clock})
		x.must(hold("before", 1))
		w, err := x.Watch(t.Context(), "paris", x.Lineage(), x.View().Revision)
		if err != nil || len(w.Snapshot) > 0 {
			t.Fatal(w.Snapshot, err)
		}
		defer w.Close()
		other := start(t, shared, exchange.Options{Clock: clock})
		other.advertise("rome", 1, "8")
		other.must(hold("others", 2))
		clock.pass(time.Second, time.Second+day) // a jump, which loading again must not make true

		if _, err := x.Do(t.Context(), hold("mine", 4)); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("the loser is told %v", err)
		}
		x.look()
		if x.Now() != noon+1000 {
			t.Errorf("time went on by %v", x.Now().Go().Sub(noon.Go()))
		}
		if x.available("rome") != 5000 || !x.View().Listing("rome").Fresh(x.Now()) ||
			x.reservation("others").State != api.Held {
			t.Errorf("%d left, fresh until %v", x.available("rome"), x.View().Listing("rome").FreshUntil.Go())
		}
		changes, revision, err := w.Next(t.Context())
		if err != nil || len(changes) != 2 || changes[0].ID != "before" ||
			changes[1].ID != "others" || revision != x.View().Revision {
			t.Errorf("the watch tells %v up to %d, %v", changes, revision, err)
		}
		x.must(hold("mine", 4))
		if x.available("rome") != 1000 {
			t.Errorf("%d left", x.available("rome"))
		}
		other.fails(api.CodeUnavailable, hold("late", 1)) // it does not resume
		if err := <-other.ended; !errors.Is(err, journal.ErrConflict) {
			t.Errorf("the other ended with %v", err)
		}
	})
}

// What does not depend on the journal is answered although its batch's append failed.
func TestResumeAnswersTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{Resume: true})
		var seen *market.Reservation
		answers := x.batch(j, fault{before: errDisk}, x.order(hold("a", 2)),
			func() error { return x.Observe(t.Context(), "rome", measured(t, 2, "4"), true) },
			func() error { return x.Read(t.Context(), func(s *market.State) { seen = s.Reservation("a") }) })
		if api.CodeOf(answers[0]) != api.CodeUnavailable || answers[1] != nil || answers[2] != nil || seen != nil {
			t.Errorf("answered %v; seen: %v", answers, seen)
		}
		if x.available("rome") != 4000 {
			t.Errorf("%d left", x.available("rome"))
		}
	})
}

// A journal that cannot be read is tried again; one that must not be used ends the exchange.
func TestResumeTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{Resume: true})
		j.loads = []error{errDisk, errDisk, errDisk}
		before := time.Now()
		answers := x.batch(j, fault{before: errDisk}, x.order(hold("a", 2)),
			func() error { return x.RecordTry(t.Context(), "a", &api.Decision{}) })
		if waited := time.Since(before); api.CodeOf(answers[0]) != api.CodeUnavailable ||
			answers[1] != nil || waited != 700*time.Millisecond {
			t.Errorf("answered %v after %v", answers, waited)
		}
		x.must(hold("a", 2))
		refused := &journal.RefusedError{Where: "here", Found: "damage", Remedy: "repair it"}
		j.loads = []error{errDisk, refused}
		x.batch(j, fault{before: errDisk}, x.order(hold("b", 2)))
		if err := <-x.ended; !errors.Is(err, refused) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestStopWhileTheJournalIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{Resume: true})
		j.loads = make([]error, 1000)
		for i := range j.loads {
			j.loads[i] = errDisk
		}
		x.batch(j, fault{before: errDisk}, x.order(hold("a", 2)))
		if err := x.stop(); err != nil {
			t.Errorf("stopped with %v", err)
		}
	})
}

// A stop in the middle of an append is no failure.
func TestStopWhileAppending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{})
		wait := make(chan struct{})
		j.appends = []fault{{wait: wait}}
		answer := make(chan error, 1)
		go func() { answer <- x.order(hold("a", 2))() }()
		synctest.Wait()
		x.cancel()
		close(wait)
		if err := x.stop(); err != nil {
			t.Errorf("stopped with %v", err)
		}
		if err := <-answer; api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("answered %v", err)
		}
	})
}

// An append for which there is no space compacts the journal and is tried once more; where that
// does not help, its commands fail, and what comes next is decided as if they had never been.
func TestFullLedger(t *testing.T) {
	full := fault{before: fmt.Errorf("1 MiB: %w", journal.ErrFull)}
	for times, want := range []api.Code{"", "", api.CodeLedgerFull} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &faulty{Journal: newMemory()}
				x := founded(t, j, exchange.Options{Resume: true})
				j.appends = slices.Repeat([]fault{full}, times)
				if _, err := x.Do(t.Context(), hold("a", 2)); want != "" && api.CodeOf(err) != want || want == "" && err != nil {
					t.Errorf("answered %v, want %q", err, want)
				}
				if n := j.snapshots.Load(); n != int64(min(times, 1)) {
					t.Errorf("it was compacted %d times", n)
				}
				if held := x.reservation("a").State == api.Held; held != (want == "") {
					t.Errorf("held: %v", held)
				}
				x.must(hold("b", 2))
				state := x.snapshot()
				if err := x.stop(); err != nil {
					t.Fatal(err)
				}
				if got := start(t, j, exchange.Options{}).snapshot(); got != state {
					t.Errorf("it was\n%s\nand is\n%s", state, got)
				}
			})
		})
	}
}

// A journal that is full although it is compacted, and one that cannot be compacted, fail what is
// asked of them and nothing else.
func TestFullLedgerThatCannotBeCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory(), snapshot: errDisk}
		x := founded(t, j, exchange.Options{Resume: true})
		j.appends = slices.Repeat([]fault{{before: journal.ErrFull}}, 2)
		x.fails(api.CodeLedgerFull, hold("a", 2))
		x.must(hold("b", 2))
	})
}
