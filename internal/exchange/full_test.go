package exchange_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
)

// However many reservations end in the same second, their ends have space in the Ledger: while the agent runs, and when it comes
// back after they all have ended.
func TestManyEndInOneSecond(t *testing.T) {
	for _, away := range []bool{false, true} {
		for _, many := range []int{400, 900, 5000} {
			t.Run(fmt.Sprintf("%d, away %v", many, away), func(t *testing.T) {
				if many > 900 && testing.Short() {
					t.Skip("it takes a while")
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
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 0 // older versions had one object
	g.start(t)
	for i := 0; i < 900; i += 50 {
		g.binds("rome", time.Hour, numbered("r", i, i+50)...)
		g.folds()
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
	if count := g.count(); count[api.Releasing] != 900 {
		t.Errorf("after all have ended: %v", count)
	}
	g.binds("rome", time.Hour, "next")
}

// A consumer that asks for a year and releases at once, again and again, takes no more space than one that does so a few times, and
// nothing of what it released comes back: of the older ones the gate only knows up to when they could be accepted.
func TestReleasedEarlyAgainAndAgain(t *testing.T) {
	g := newGate(t)
	released := map[string]market.Time{}
	var last int64
	for round := range 4 {
		ids := numbered(fmt.Sprint("round-", round), 0, 1500)
		g.binds("rome", 300*day, ids...)
		g.must(g.admission(fmt.Sprint("paris-", round), "paris", 300*day))
		for _, r := range g.in(api.Reserved) {
			if r.Consumer == "rome" {
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
		g.binds("oslo", time.Minute, numbered(fmt.Sprint("fold-", round), 0, 64)...) // so that the Ledger is folded
		last = g.Size().Snapshot
	}
	if most := int64(56 << 10); last > most || len(released) != 4*1500 {
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

// No consumer takes the whole Ledger: of each the gate remembers so many reservations, with those that ended within the last hour.
func TestReservationsOfOneConsumer(t *testing.T) {
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

// Long before a Ledger is full its agent takes in nothing new: neither reservations nor changes of them, nor clusters. What it knows is
// committed, ends, is freed and is forgotten, all at once, and then there is space again.
func TestNothingNewInACrowdedLedger(t *testing.T) {
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
			_, err := g.Do(t.Context(), g.admission(id, []string{"rome", "oslo"}[i/100%2], time.Hour))
			if err == nil {
				g.must(market.Commit{ID: id, Generation: 1})
			} else if api.CodeOf(err) != api.CodeLedgerFull {
				t.Errorf("refused by %v", err)
			}
		})
		g.folds()
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
	g.folds()
	g.binds("rome", time.Hour, "next")
	g.must(g.pinning("paris"))
}
