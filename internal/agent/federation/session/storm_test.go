package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// stormy is a broker whose watches do what a test says. It counts them.
type stormy struct {
	transporttest.Broker
	watches int
	show    func(ctx context.Context, handle func(api.WatchEvent) error) error
}

func (b *stormy) WatchCatalog(ctx context.Context, _, _ string, handle func(api.WatchEvent) error) error {
	b.watches++
	return b.show(ctx, handle)
}

// costs counts what a broker makes this cluster do.
type costs struct{ complete, connection, heard atomic.Int64 }

func (c *costs) String() string {
	return fmt.Sprintf("complete %d, connection %d, heard %d", c.complete.Load(), c.connection.Load(), c.heard.Load())
}

// weather watches a stormy broker for a time, and returns what that costs, and how the connection is then.
func weather(t *testing.T, broker *stormy, long time.Duration) (*costs, *Session) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	open, s, c := &Sessions{}, New(Options{Cluster: "rome", Broker: broker}), &costs{}
	open.Add(s)
	open.OnHeard(func() { c.heard.Add(1) })
	w := NewWatcher(WatcherOptions{Sessions: open, Catalog: noCatalog{}, Reservation: func(string) {},
		Complete: func(context.Context) { c.complete.Add(1) },
		Connection: func(s *Session, err error) {
			c.connection.Add(1)
			s.Connection().Record(err)
		}, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	time.Sleep(long)
	synctest.Wait()
	state := s.connection.State()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.connection.err = state.Err
	return c, s
}

var (
	wholeSnapshot = api.WatchEvent{Type: api.WatchSnapshot, Complete: true}
	nextBookmark  = api.WatchEvent{Type: api.WatchBookmark, Token: "a.5"}
)

// A broker that shows everything again and again within one watch, or one bookmark after the other, costs no more
// than one that is lost now and then.
func TestABrokerThatShowsAllAgainAndAgain(t *testing.T) {
	const long = 10 * time.Minute
	for name, c := range map[string]struct {
		show             []api.WatchEvent
		complete, others int64
	}{
		"snapshots": {[]api.WatchEvent{wholeSnapshot, nextBookmark}, 60, 200},
		"bookmarks": {[]api.WatchEvent{nextBookmark}, 1, int64(long/heardEvery) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := &stormy{show: func(ctx context.Context, handle func(api.WatchEvent) error) error {
					for i := 0; ctx.Err() == nil; i++ {
						if err := handle(c.show[i%len(c.show)]); err != nil {
							return err
						}
						time.Sleep(time.Millisecond)
					}
					return ctx.Err()
				}}
				cost, _ := weather(t, broker, long)
				if cost.complete.Load() > c.complete || cost.connection.Load() > c.others || cost.heard.Load() > c.others {
					t.Errorf("in %s: %s, want at most %d and %d", long, cost, c.complete, c.others)
				}
			})
		})
	}
}

// A connection that is lost again and again, each time after a whole snapshot, begins again less and less often.
// Once it lasts, all is as before.
func TestAConnectionThatIsLostAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lasts := 10 * time.Millisecond
		broker := &stormy{show: func(ctx context.Context, handle func(api.WatchEvent) error) error {
			if err := handle(wholeSnapshot); err != nil {
				return err
			}
			if err := handle(nextBookmark); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(lasts):
			}
			return transporttest.Away
		}}
		cost, _ := weather(t, broker, 10*time.Minute)
		if broker.watches > 60 || cost.complete.Load() > 60 {
			t.Errorf("it begins %d times in 10 minutes: %s", broker.watches, cost)
		}
		broker.watches, lasts = 0, time.Minute
		cost, s := weather(t, broker, time.Hour)
		if broker.watches < 55 || s.connection.err != nil {
			t.Errorf("a connection that lasts a minute begins %d times in an hour: %s", broker.watches, cost)
		}
	})
}

// What a pace holds back is done when the pause is over, once, unless it is dropped meanwhile.
func TestAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		end := make(chan struct{})
		p := &pace{clock: New(Options{}).Clock, pause: time.Second, end: end,
			do: func() { done.Add(1) }, run: func(f func()) { go f() }}
		counts := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if n := done.Load(); n != want {
				t.Errorf("%s: it was done %d times, want %d", when, n, want)
			}
		}
		p.ask()
		counts("asked", 1)
		p.ask()
		p.ask()
		counts("asked within the pause", 1)
		time.Sleep(time.Second)
		counts("after the pause", 2)
		p.ask()
		p.drop()
		time.Sleep(time.Second)
		counts("dropped", 2)
		time.Sleep(time.Second)
		p.ask()
		counts("later", 3)
		p.ask()
		close(end)
		time.Sleep(time.Second)
		counts("ended", 3)
	})
}
