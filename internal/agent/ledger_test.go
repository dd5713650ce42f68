package agent

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/journal"
)

// The doctor warns of a Ledger that takes nothing new in.
func TestDoctorSeesACrowdedLedger(t *testing.T) {
	for use, want := range map[int64]int{0: 0, 590: 0, 600: 1, 1000: 1} {
		found := ofLedger("ledger", journal.Size{Snapshot: use - use/10, Tail: use / 10, Space: 1000})
		if len(found) != want || want > 0 && (found[0].Code != health.LedgerCrowded.Code || found[0].Subject != "ledger ledger" || found[0].Remedy == "") {
			t.Errorf("at %d of 1000: %+v", use, found)
		}
	}
	if found := ofLedger("market", journal.Size{Snapshot: 1 << 40}); found != nil {
		t.Errorf("without a bound: %+v", found)
	}
}
