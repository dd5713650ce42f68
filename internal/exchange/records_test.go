package exchange_test

import (
	"testing"
	"time"
)

// A Ledger tells what its cluster lends from what it borrows.
func TestRecordsOfALedger(t *testing.T) {
	g := newGate(t)
	g.must(g.pinning("paris"))
	g.binds("paris", time.Hour, "r-1", "r-2")
	lent, err := g.Lent(t.Context())
	if err != nil || len(lent) != 2 || lent[0].Consumer != "paris" {
		t.Errorf("lent: %v, %v", lent, err)
	}
	if all, err := g.Reservations(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("all: %v, %v", all, err)
	}
	if borrowed, err := g.Borrowed(t.Context()); err != nil || len(borrowed) != 0 {
		t.Errorf("borrowed: %v, %v", borrowed, err)
	}
	if r, err := g.Reservation(t.Context(), "r-1"); err != nil || r == nil || r.Provider != g.Self() {
		t.Errorf("r-1: %v, %v", r, err)
	}
	if r, err := g.Reservation(t.Context(), "r-3"); err != nil || r != nil {
		t.Errorf("r-3: %v, %v", r, err)
	}
	if m, err := g.Member(t.Context(), "paris"); err != nil || m == nil {
		t.Errorf("paris: %v, %v", m, err)
	}
}
