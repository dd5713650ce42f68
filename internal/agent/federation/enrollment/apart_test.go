package enrollment

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// hurrying is a clock on which all waits are over at once. It notes how long each would have been,
// and ends the test after enough.
type hurrying struct {
	clock.RealClock
	enough func()

	mu    sync.Mutex
	waits []time.Duration
}

const enoughWaits = 400

func (h *hurrying) After(d time.Duration) <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits = append(h.waits, d); len(h.waits) == enoughWaits {
		h.enough()
	}
	over := make(chan time.Time, 1)
	over <- time.Now()
	return over
}

// checkSpread demands that waits are spread over all of a range: each tenth of it has some.
func checkSpread(t *testing.T, waits []time.Duration, from, until time.Duration) {
	t.Helper()
	var tenths [10]int
	for _, w := range waits {
		if w < from || w >= until {
			t.Fatalf("a wait of %s, want %s to %s", w, from, until)
		}
		tenths[10*(w-from)/(until-from)]++
	}
	for i, n := range tenths {
		if n == 0 {
			t.Errorf("of %d waits none is in tenth %d of %s to %s: %v", len(waits), i, from, until, tenths)
		}
	}
}

// Clusters that a broker cannot let in at the same time do not return at the same time: neither
// those that join nor those that renew.
func TestClustersReturnApart(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	token, err := f.Operator.CreateToken(t.Context(), "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	fast := &hurrying{enough: stop}
	o := Options{Cluster: "rome", Token: token.Token, BrokerURL: "https://127.0.0.1:1",
		Store: store.InDir(t.TempDir()), Log: slog.New(slog.DiscardHandler), Clock: fast}
	away, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Run(ctx); err != nil {
		t.Fatalf("it joined where nobody listens: %v", err)
	}
	checkSpread(t, fast.waits[7:], time.Minute/2, 3*time.Minute/2) // before, they grow

	o.BrokerURL, o.Clock, o.Store = f.URL, nil, store.InDir(t.TempDir())
	m, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	fast = &hurrying{enough: stop}
	m.Clock = fast
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	var between []time.Duration
	for i := 1; i < len(fast.waits); i += 2 { // each second one is for the certificate to become old
		between = append(between, fast.waits[i])
	}
	checkSpread(t, between, market.RenewEvery, 2*market.RenewEvery)
}
