package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memory"
)

// The metrics are named and typed as Prometheus' own linter wants, and an empty market is balanced.
func TestMetrics(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x, err := exchange.Open(ctx, memory.New(), exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	problems, err := testutil.CollectAndLint(&metrics{market: x})
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	want := "# HELP bourse_market_imbalance Pools whose reserved amount differs from the same recomputed from all reservations. Must be 0.\n# TYPE bourse_market_imbalance gauge\nbourse_market_imbalance 0\n"
	if err := testutil.CollectAndCompare(&metrics{market: x}, strings.NewReader(want), "bourse_market_imbalance"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
