package exchange_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/raced"
)

// However many reservations end in the same second, their ends have space in the Ledger: while the
// agent runs, and when it comes back after they all have ended.
func TestManyEndInOneSecond(t *testing.T) {
	raced.Skip(t)
	for _, away := range []bool{false, true} {
		for _, many := range []int{400, 900, 5000} {
			t.Run(fmt.Sprintf("%d, away %v", many, away), func(t *testing.T) {
				if many > 400 {
					takesLong(t)
				}
				g := newGate(t)
				g.must(g.pinning("rome"))
				g.binds("rome", time.Hour, numbered("r", 0, many)...)
				if away {
					if err := g.stop(); err != nil {
						t.Fatal(err)
					}
				}
				g.clock.pass(time.Hour+time.Minute, time.Hour+time.Minute)
				if away {
					g.start(t)
				}
				for range 100 {
					g.look()
				}
				if count := g.count(); count[api.Reserved] != 0 || count[api.Releasing] != many {
					t.Fatalf("a minute after all have ended: %v", count)
				}
				g.must(g.pinning("paris"))
				g.frees()
				g.clock.pass(2*time.Hour, 2*time.Hour)
				for range 100 {
					g.look()
				}
				if count := g.count(); len(count) != 0 {
					t.Errorf("hours later: %v", count)
				}
				g.binds("paris", time.Hour, "next")
			})
		}
	}
}

// A Ledger of an older version, which had no space for the ends that are due, comes free by itself.
func TestLedgerThatCameToAStop(t *testing.T) {
	raced.Skip(t)
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 0 // older versions had one object
	g.start(t)
	const many = 600 // whose ends take more than the object may
	for i := 0; i < many; i += 20 {
		// Of four consumers none comes near the share of the Ledger that one may take, compacted or not.
		g.binds([]string{"rome", "oslo", "paris", "turin"}[i/20%4], time.Hour, numbered("r", i, i+20)...)
		g.compacts()
	}
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.clock.pass(2*time.Hour, 2*time.Hour)
	g.parts = kube.Parts
	g.start(t)
	for range 100 {
		g.look()
	}
	if count := g.count(); count[api.Releasing] != many {
		t.Errorf("after all have ended: %v", count)
	}
	g.binds("rome", time.Hour, "next")
}

// A consumer that asks for a year and releases at once, again and again, takes no more space than
// one that does so a few times, and nothing of what it released comes back: of the older ones the
// gate only knows up to when they could be accepted.
func TestReleasedEarlyAgainAndAgain(t *testing.T) {
	raced.Skip(t)
	g := newGate(t)
	const each = 1500
	g.binds("rome", 300*day, "live")
	larger, lost := g.admission("live", "rome", 299*day), g.admission("lost", "rome", 300*day)
	larger.Assignment.Generation, larger.Adopt, lost.Adopt = 2, true, true
	released := map[string]market.Time{}
	var last int64
	for round := range 4 {
		ids := numbered(fmt.Sprint("round-", round), 0, each)
		g.binds("rome", 300*day, ids...)
		g.must(g.admission(fmt.Sprint("paris-", round), "paris", 300*day))
		for _, r := range g.in(api.Reserved) {
			if r.Consumer == "rome" && r.ID != "live" {
				released[r.ID] = r.AcceptBy
			}
		}
		g.all(ids, func(id string) {
			g.must(market.Release{ID: id, By: "milan", Reason: api.ReasonReleased})
			g.must(market.Free{ID: id, Provider: "milan"})
		})
		g.clock.pass(2*time.Hour, 2*time.Hour)
		for range 50 {
			g.look()
		}
		last = g.compactsAll("oslo", fmt.Sprint("fold-", round)).Snapshot
	}
	if most := int64(56 << 10); last > most || len(released) != 4*each {
		t.Errorf("after %d were released early, its snapshot takes %d bytes, want at most %d", len(released), last, most)
	}
	shown := g.admission("new", "rome", time.Hour)
	check := func(when string) {
		t.Helper()
		if err := g.Read(t.Context(), func(s *market.State) {
			for id, acceptBy := range released {
				if !s.Spent(id, "rome", acceptBy, g.Now()) {
					t.Errorf("%s, %s comes back", when, id)
				}
			}
			if s.Spent("new", "rome", shown.BindsUntil, g.Now()) {
				t.Errorf("%s, what was accepted since is taken for one that was released", when)
			}
			if s.Spent("other", "oslo", released["round-0-00000"], g.Now()) {
				t.Errorf("%s, what another consumer has is taken for one that was released", when)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	check("while the agent runs")
	g.fails(api.CodeConflict, lost) // as old as what is over
	g.must(larger)                  // of what is not over, which the Ledger knows
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.start(t)
	check("after a restart")
	g.clock.pass(400*day, 400*day)
	for range 50 {
		g.look()
	}
	g.binds("oslo", time.Hour, "more")
	g.must(market.Release{ID: "more", By: "milan"})
	g.frees()
	g.clock.pass(2*time.Hour, 2*time.Hour)
	g.look()
	if state := g.snapshot(); strings.Contains(state, "round-") || strings.Contains(state, "passed") {
		t.Errorf("a year later it remembers\n%.500s", state)
	}
}

// No consumer takes the whole Ledger: of each the gate remembers so many reservations, with those
// that ended within the last hour.
func TestReservationsOfOneConsumer(t *testing.T) {
	raced.Skip(t)
	takesLong(t)
	g := newGate(t)
	g.binds("rome", 300*day, numbered("r", 0, 5000)...)
	more := g.admission("more", "rome", time.Hour)
	g.fails(api.CodeLedgerFull, more)
	g.must(market.Release{ID: "r-00000", By: "milan"})
	g.frees()
	g.fails(api.CodeLedgerFull, more)
	g.binds("paris", time.Hour, "other")
	g.clock.pass(2*time.Hour, 2*time.Hour)
	g.look()
	g.binds("rome", time.Hour, "later")
}

// Long before a Ledger is full its agent takes in nothing new: neither reservations nor changes of
// them, nor clusters. What it knows is committed, ends, is freed and is forgotten, all at once, and
// then there is space again.
func TestNothingNewInACrowdedLedger(t *testing.T) {
	raced.Skip(t)
	takesLong(t)
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 3 // a Ledger that is soon full
	g.start(t)
	g.must(g.pinning("rome"))
	g.must(g.admission("waits", "rome", time.Hour))
	for i := 0; g.Size().Use() < exchange.Crowded; i += 100 {
		g.all(numbered("r", i, i+100), func(id string) {
			_, err := g.Do(t.Context(), g.admission(id, fmt.Sprint("borrower-", i/100), time.Hour))
			if err == nil {
				g.must(market.Commit{ID: id, Generation: 1})
			} else if api.CodeOf(err) != api.CodeLedgerFull {
				t.Errorf("refused by %v", err)
			}
		})
		g.compacts()
	}
	bound := len(g.in(api.Reserved))
	size := g.Size()
	if use := size.Use(); use < exchange.Crowded || use > exchange.Crowded+0.2 || bound < 1000 || bound > 3000 {
		t.Errorf("refused at %.2f of the space, with %d reservations", use, bound)
	}
	g.fails(api.CodeLedgerFull, g.pinning("paris"))
	change := g.admission("r-00000", "oslo", 2*time.Hour)
	change.Assignment.Generation, change.Assignment.Consumer = 2, g.reservation("r-00000").Consumer
	g.fails(api.CodeLedgerFull, change)
	g.must(market.Commit{ID: "waits", Generation: 1})
	lost := g.admission("lost", "rome", 3*time.Hour)
	lost.Adopt = true
	g.must(lost) // what it accepted before counts
	g.clock.pass(time.Hour+time.Minute, time.Hour+time.Minute)
	for range 50 {
		g.look()
	}
	g.frees()
	if count := g.count(); count[api.Released] != bound+1 || count[api.Reserved] != 1 {
		t.Errorf("of %d, after all have ended: %v", bound, count)
	}
	if size := g.Size(); size.Snapshot > size.Space {
		t.Errorf("after all have ended, the snapshot takes %d of %d bytes", size.Snapshot, size.Space)
	}
	g.clock.pass(2*time.Hour, 2*time.Hour)
	for range 50 {
		g.look()
	}
	g.hasSpace()
	g.binds("oslo", time.Hour, "next") // what is not folded yet counts for rome, which still has something
	g.must(g.pinning("paris"))
}

// stuck is a journal without space: it takes no snapshot, and no batch of more than most bytes.
type stuck struct {
	journal.Journal
	most         atomic.Int64 // 0: any
	loads, tries atomic.Int64
}

func (j *stuck) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	j.loads.Add(1)
	return j.Journal.Load(ctx, onSnapshot, onRecord)
}

func (j *stuck) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	size := int64(0)
	for _, e := range events {
		size += int64(len(e))
	}
	if most := j.most.Load(); most != 0 && size > most {
		j.tries.Add(1)
		return journal.Head{}, fmt.Errorf("%w: %d bytes of %d", journal.ErrFull, size, most)
	}
	return j.Journal.Append(ctx, after, events)
}

func (j *stuck) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	if j.most.Load() != 0 {
		return journal.ErrFull
	}
	return j.Journal.Snapshot(ctx, head, write)
}

// opens starts the agent on another journal, with so many reservations that end within an hour.
func (j *stuck) opens(t *testing.T, many int) *gate {
	t.Helper()
	g := &gate{clock: newClock(), keys: map[string]*clusterkey.Key{}}
	g.opens(t, j)
	g.binds("rome", time.Hour, numbered("r", 0, many)...)
	return g
}

// What is due is written in smaller pieces where a Ledger has little space left, and cannot be compacted.
func TestEndsInSmallPiecesWhereSpaceIsScarce(t *testing.T) {
	j := &stuck{Journal: newMemory()}
	g := j.opens(t, 300)
	j.most.Store(16 << 10)
	g.clock.pass(time.Hour+time.Minute, time.Hour+time.Minute)
	for range 300 {
		g.look()
	}
	if count := g.count(); count[api.Releasing] != 300 {
		t.Errorf("a minute after all have ended: %v", count)
	}
}

// A Ledger that takes nothing of what is due is not loaded and compacted each time the agent looks,
// and goes on once it has space.
func TestAFullLedgerIsTriedLessAndLess(t *testing.T) {
	j := &stuck{Journal: newMemory()}
	g := j.opens(t, 20)
	j.most.Store(1)
	g.clock.pass(time.Hour+time.Minute, time.Hour+time.Minute)
	before := j.loads.Load()
	for range 600 { // ten minutes
		g.clock.pass(time.Second, time.Second)
		g.look()
	}
	if loads := j.loads.Load() - before; loads > 30 || loads < 8 {
		t.Errorf("it was loaded %d times within ten minutes", loads)
	}
	if _, err := g.Do(t.Context(), market.Release{ID: "r-00000", By: "milan"}); api.CodeOf(err) != api.CodeLedgerFull {
		t.Errorf("an eviction is answered by %v", err)
	}
	j.most.Store(0)
	g.clock.pass(time.Minute, time.Minute)
	g.look()
	g.look()
	if count := g.count(); count[api.Releasing] != 20 {
		t.Errorf("once there is space: %v", count)
	}
}

// What unpacks to a lot fills a Ledger, too, however small it is packed.
func TestWhatPacksWellFillsALedger(t *testing.T) {
	raced.Skip(t)
	takesLong(t)
	g := newGate(t)
	for i := 0; g.Size().Use() < exchange.Crowded && i < 6000; i += 50 {
		g.all(numbered("r", i, i+50), func(id string) {
			c := g.admission(id, fmt.Sprint("borrower-", i/50), time.Hour)
			c.Document = strings.Repeat("x", 60<<10) // as an older version took them
			if _, err := g.Do(t.Context(), c); err != nil && api.CodeOf(err) != api.CodeLedgerFull {
				t.Errorf("refused by %v", err)
			}
		})
		g.compacts()
	}
	size := g.Size()
	if size.Use() < exchange.Crowded || size.Plain > size.MaxPlain*3/4 || size.Snapshot+size.Tail > size.Space/2 {
		t.Errorf("it takes %+v", size)
	}
	g.fails(api.CodeLedgerFull, g.admission("more", "rome", time.Hour))
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.start(t)
	if again := g.Size(); again.Use() < exchange.Crowded*3/4 {
		t.Errorf("after a restart it takes %+v", again)
	}
	g.clock.pass(2*time.Hour, 2*time.Hour)
	for range 200 {
		g.look()
	}
	if count := g.count(); count[api.Held] != 0 {
		t.Errorf("after all have lapsed: %v", count)
	}
}

// Much is forgotten by a short event. A crowded Ledger takes in something new after it, although
// nothing else happens.
func TestForgottenByOneShortEvent(t *testing.T) {
	raced.Skip(t)
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 3 // a Ledger that is soon full
	g.start(t)
	for i := 0; g.Size().Use() < exchange.Crowded; i++ {
		c := g.admission(fmt.Sprint("r-", i), fmt.Sprint("borrower-", i), time.Hour)
		c.Document = noise(30 << 10)
		g.must(c)
		g.compacts()
	}
	g.fails(api.CodeLedgerFull, g.admission("more", "rome", time.Hour))
	g.must(market.Commit{ID: "r-0", Generation: 1})
	smaller := g.admission("r-0", "borrower-0", time.Minute)
	smaller.Assignment.Generation = 2
	g.fails(api.CodeLedgerFull, smaller) // for it, too, there are two documents more
	g.fails(api.CodeLedgerFull, g.pinning("bern"))
	g.must(market.Trust{Cluster: "bern", Fingerprint: "its key"}) // what the admin says is kept
	g.must(market.Suspend{Cluster: "lyon", Why: "it floods us"})
	g.clock.pass(2*time.Hour, 2*time.Hour) // they were never committed, and lapse
	g.look()
	g.hasSpace()
	g.frees()
	g.clock.pass(2*time.Hour, 2*time.Hour)
	g.look()
	g.hasSpace()
	if count := g.count(); len(count) != 0 {
		t.Errorf("hours later there are %v", count)
	}
	g.binds("rome", time.Hour, "next")
}

// noise is a text of as many bytes that does not pack.
func noise(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)
}
