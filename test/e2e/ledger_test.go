package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	agentledger "github.com/bourse-dev/bourse/internal/agent/ledger"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
)

// awayLater is a clock that is so far ahead.
type awayLater time.Duration

func (c awayLater) Wall() time.Time       { return time.Now().Round(0).Add(time.Duration(c)) }
func (c awayLater) Passed() time.Duration { return time.Since(begun) }

var begun = time.Now()

// At a real API server, with our CRD: a Ledger of an agent that was away while 1,500 reservations
// ended in one second, which lies in several objects, is opened, and they all end.
func TestAgentThatWasAwayEndsWhatEnded(t *testing.T) {
	w := start(t)
	key := kubeclient.ObjectKey{Namespace: api.Namespace, Name: "away"}
	open := func(ahead time.Duration) (x *exchange.Exchange, stop func()) {
		t.Helper()
		options := agentledger.MarketOptions("milan")
		options.Clock, options.Log = awayLater(ahead), slog.New(slog.NewTextHandler(io.Discard, nil))
		x, err := exchange.Open(t.Context(), kube.New(w.milan.Objects, key, kube.Parts), options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running errgroup.Group
		running.Go(func() error { return x.Run(ctx) })
		incarnation := time.Now().Add(ahead).UnixMilli()
		measure := func(number int64) error {
			m, err := market.Measure(api.Measurement{
				Sequence: api.Sequence{Incarnation: incarnation, Number: number}, Terms: &api.Terms{},
				Pools: map[string]api.Pool{api.GeneralPool: {Capacity: cpu("1k"), Allocatable: cpu("1k"), Shared: cpu("1k")}},
			})
			if err != nil {
				return err
			}
			return x.Observe(ctx, "milan", m, true)
		}
		if err := measure(1); err != nil {
			t.Fatal(err)
		}
		running.Go(func() error { // as an agent does: a measurement counts for one lease
			for number := int64(2); ; number++ {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(market.Lease / 9):
				}
				if err := measure(number); err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
		return x, func() {
			cancel()
			if err := running.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	document := func(n int) string { // as long as those that are signed, and no easier to pack
		noise := make([]byte, n)
		_, _ = rand.Read(noise)
		return base64.RawURLEncoding.EncodeToString(noise)
	}
	const many = 1500
	x, stop := open(0)
	until := market.At(time.Now().Add(time.Hour))
	size, err := amounts.ParseRequest("resources", cpu("10m"))
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(64)
	for i := range many {
		group.Go(func() error {
			id := fmt.Sprintf("away-%04d", i)
			_, err := x.Do(t.Context(), market.Admit{
				Assignment: api.Assignment{Reservation: id, Generation: 1,
					Consumer: fmt.Sprint("rome-", i%4), Provider: "milan", Pool: api.GeneralPool, Until: until.Meta()},
				Size: size, Document: document(900), Acceptance: document(500), BindsUntil: market.At(time.Now().Add(time.Minute)),
			})
			if err == nil {
				_, err = x.Do(t.Context(), market.Commit{ID: id, Generation: 1})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	stop()
	var whole, last api.Ledger
	if err := w.milan.Objects.Get(t.Context(), key, &whole); err != nil || len(whole.Spec.Parts) == 0 {
		t.Errorf("its snapshot is in one object (%v)", err)
	}
	lastKey := kubeclient.ObjectKey{Namespace: key.Namespace, Name: fmt.Sprintf("%s-%d", key.Name, kube.Parts-1)}
	if err := w.milan.Objects.Get(t.Context(), lastKey, &last); err != nil {
		t.Errorf("not all parts were made: %v", err)
	}
	x, stop = open(2 * time.Hour)
	defer stop()
	eventually(t, "all have ended", func(ctx context.Context) (err error) {
		count := map[api.State]int{}
		if err := x.Read(ctx, func(s *market.State) {
			for _, r := range s.All() {
				count[r.State]++
			}
		}); err != nil {
			return err
		}
		if count[api.Releasing] != many {
			return fmt.Errorf("they are %v", count)
		}
		return nil
	})
}
