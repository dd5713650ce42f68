package brokersession

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// absentBroker notes when it is called, and never answers.
type absentBroker struct {
	transporttest.Broker
	mu    sync.Mutex
	calls []time.Time
}

func (b *absentBroker) WatchCatalog(context.Context, string, string, func(api.WatchEvent) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, time.Now())
	return transporttest.Away
}

// noCatalog keeps nothing.
type noCatalog struct{}

func (noCatalog) Token(string) string           { return "" }
func (noCatalog) DropToken(string)              {}
func (noCatalog) Record(string, api.WatchEvent) {}
func (noCatalog) MarkLost(string)               {}

// Agents that lose their broker at the same time do not return at the same time.
func TestAgentsReturnApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 300
		ctx, stop := context.WithCancel(t.Context())
		broker := &absentBroker{}
		w := NewWatcher(WatcherOptions{Catalog: noCatalog{}, Connection: func(*Session, error) {}, Log: slog.New(slog.DiscardHandler)})
		var all sync.WaitGroup
		for range agents {
			all.Go(func() { w.Watch(ctx, New(Options{Broker: broker})) })
		}
		time.Sleep(10 * time.Minute)
		stop()
		all.Wait()
		slices.SortFunc(broker.calls, time.Time.Compare)
		begin := broker.calls[0].Add(5 * time.Minute) // from then on each waits for as long as it ever does
		bySecond := map[int]int{}
		for _, at := range broker.calls {
			if at.After(begin) {
				bySecond[int(at.Sub(begin)/time.Second)]++
			}
		}
		total, most := 0, 0
		for _, n := range bySecond {
			total, most = total+n, max(most, n)
		}
		if mean := agents * 300 / 30; total < mean*8/10 || total > mean*12/10 {
			t.Errorf("%d agents call %d times in five minutes, want about %d", agents, total, mean)
		}
		if most > 40 { // 10 on average
			t.Errorf("%d of %d agents call in the same second", most, agents)
		}
	})
}
