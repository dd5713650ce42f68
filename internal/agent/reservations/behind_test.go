package reservations

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A change of the Ledger is looked at also after a watch of the Ledger ended, as it does for a slow reader.
func TestTheLedgersWatchEnds(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "rome"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.followLedger(t.Context())
	}()
	size, err := amounts.ParseRequest("", transporttest.CPU("2"))
	if err != nil {
		t.Fatal(err)
	}
	note := func(id string) {
		t.Helper()
		until := market.At(b.options.Ledger.Now().Go().Add(time.Hour))
		note := market.Note{Reservation: &market.Reservation{ID: id, State: api.Held, Consumer: "rome",
			Provider: "oslo", Pool: api.GeneralPool, Size: size, Generation: 1, HeldUntil: until, Until: until}}
		if _, err := b.options.Ledger.Do(t.Context(), note); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); b.queue.Len() == 0; time.Sleep(time.Millisecond) {
			select {
			case <-ended:
				t.Fatalf("nothing follows the Ledger when %s comes", id)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("%s is not looked at", id)
			}
		}
		for b.queue.Len() > 0 {
			got, _ := b.queue.Get()
			b.queue.Done(got)
		}
	}
	note("r-1")
	b.options.Ledger.EndWatches()
	note("r-2")
}
