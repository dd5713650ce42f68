package broker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// A broker that is stopped remembers what its members advertised last, however recently: the next
// one shows it, as of then. One whose checkpoint is damaged, or of a member that it does not know,
// starts without.
func TestCheckpointed(t *testing.T) {
	o, kept := Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, memorytest.New()
	runs(t, kept, func(ctx context.Context, x *exchange.Exchange) {
		if _, err := x.Do(ctx, market.Enroll{Cluster: "milan", Key: "k-milan"}); err != nil {
			t.Fatal(err)
		}
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 7}, Terms: &api.Terms{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Observe(ctx, "milan", m, true); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(ctx)
		end()
		if err := keepCheckpoint(ended, o, x); err != nil {
			t.Fatal(err)
		}
	})
	shows := func(want int64) {
		t.Helper()
		runs(t, kept, func(ctx context.Context, x *exchange.Exchange) {
			err := recall(ctx, x, readCheckpoint(o.Dir))
			if (err == nil) != (want > 0) {
				t.Errorf("recalled: %v", err)
			}
			l, got := x.View().Listing("milan"), int64(0)
			if l != nil && l.Measured != nil {
				got = l.Measured.Sequence.Number
			}
			if got != want || l.Fresh(x.Now()) {
				t.Errorf("it shows %d, want %d, fresh %v", got, want, l.Fresh(x.Now()))
			}
		})
	}
	shows(7)
	if err := os.WriteFile(filepath.Join(o.Dir, checkpointFile), []byte(`{"milan":`), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(0)
	runs(t, memorytest.New(), func(ctx context.Context, x *exchange.Exchange) {
		if err := os.WriteFile(filepath.Join(o.Dir, checkpointFile), []byte(`{"milan":{},"rome":null}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := recall(ctx, x, readCheckpoint(o.Dir)); err != nil || x.View().Len() > 0 {
			t.Errorf("%v, %d clusters", err, x.View().Len())
		}
	})
}

// runs lets a market run on a journal as long as do does.
func runs(t *testing.T, j journal.Journal, do func(context.Context, *exchange.Exchange)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := exchange.Open(ctx, j, exchange.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	do(ctx, x)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
