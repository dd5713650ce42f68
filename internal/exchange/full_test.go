package exchange_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/kube"
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
	g.binds("rome", time.Hour, numbered("r", 0, 900)...)
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
