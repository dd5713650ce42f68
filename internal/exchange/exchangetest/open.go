// Package exchangetest runs a market for tests.
package exchangetest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
)

// Open opens a market over a journal, nil: a new one in memory, and runs it until the test ends. It
// logs nothing unless the options say where.
func Open(t testing.TB, j journal.Journal, o exchange.Options) *exchange.Exchange {
	t.Helper()
	if j == nil {
		j = memorytest.New()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	x, err := exchange.Open(ctx, j, o)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("market: %v", err)
		}
	})
	return x
}
