package exchange_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
)

// Acknowledged events survive a crash, and all remaining decisions are right.
func TestAcknowledgedSurvivesACrash(t *testing.T) {
	for name, journals := range map[string]func(*testing.T) (j journal.Journal, crash func() journal.Journal){
		"memory": func(*testing.T) (journal.Journal, func() journal.Journal) {
			j := newMemory()
			return j, func() journal.Journal { return j }
		},
		"sqlite": func(t *testing.T) (journal.Journal, func() journal.Journal) {
			from := t.TempDir()
			return openSQLite(t, from), func() journal.Journal { return openSQLite(t, crashImage(t, from)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, crash := journals(t)
			x := founded(t, j, exchange.Options{SnapshotEvery: 60})
			x.advertise("rome", 2, "20")
			var mu sync.Mutex
			acknowledged := map[string]api.State{}
			say := func(id string, state api.State) {
				mu.Lock()
				defer mu.Unlock()
				acknowledged[id] = state
			}
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					for i := range 25 {
						id := fmt.Sprintf("r%d-%d", n, i)
						if _, err := x.Do(t.Context(), hold(id, 2)); err != nil {
							continue // no room now
						}
						say(id, api.Held)
						if i%4 > 0 {
							x.must(market.Release{ID: id, By: "paris", Generation: 1})
							say(id, api.Failed)
						}
					}
				})
			}
			all.Wait()
			want := x.snapshot()

			if err := x.stop(); err != nil { // but nothing is closed
				t.Fatal(err)
			}
			again := start(t, crash(), exchange.Options{})
			if got := again.snapshot(); got != want {
				t.Errorf("before the crash\n%s\nafter it\n%s", want, got)
			}
			held := int64(0)
			for id, state := range acknowledged {
				r := again.reservation(id)
				if r.State != state {
					t.Errorf("%s was acknowledged as %s, and is %s", id, state, r.State)
				}
				if r.State == api.Held {
					held++
				}
			}
			again.advertise("rome", 1, "20")
			if got := again.available("rome"); got != 20_000-2000*held || held == 0 {
				t.Errorf("%d left with %d holds", got, held)
			}
			if again.Lineage() != x.Lineage() {
				t.Error("a crash began another lineage")
			}
		})
	}
}

func openSQLite(t *testing.T, folder string) journal.Journal {
	t.Helper()
	j := sqlite.New(filepath.Join(folder, "market.db"))
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// crashImage copies the files of a journal as a crash leaves them.
func crashImage(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}
