package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// sized is a Ledger of some size.
type sized struct {
	size  journal.Size
	state *market.State
}

func (l sized) Size() journal.Size { return l.size }

func (l sized) Read(_ context.Context, look func(*market.State)) error { look(l.state); return nil }

// The doctor warns of a Ledger that takes nothing new in, and names the consumer that has most in it.
func TestDoctorSeesACrowdedLedger(t *testing.T) {
	state := market.New("milan")
	for i, consumer := range []string{"oslo", "rome", "paris", "rome"} {
		r := &market.Reservation{ID: fmt.Sprint("r-", i), Consumer: consumer, Provider: "milan", Pool: api.GeneralPool, State: api.Reserved, Generation: 1}
		state.Apply(market.Event{Time: 1, Reservation: &market.ReservationEvent{Reservation: r}})
	}
	for use, want := range map[int64]int{0: 0, 590: 0, 600: 1, 1000: 1} {
		found := ofLedger(t.Context(), "ledger", sized{journal.Size{Snapshot: use - use/10, Tail: use / 10, Space: 1000}, state})
		if len(found) != want || want > 0 && (found[0].Code != health.LedgerCrowded.Code || found[0].Subject != "ledger ledger" || found[0].Remedy == "" || !strings.Contains(found[0].Detail, "rome takes most")) {
			t.Errorf("at %d of 1000: %+v", use, found)
		}
	}
	if found := ofLedger(t.Context(), "market", sized{journal.Size{Snapshot: 1 << 40}, state}); found != nil {
		t.Errorf("without a bound: %+v", found)
	}
}
