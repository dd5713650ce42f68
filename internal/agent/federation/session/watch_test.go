package session

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
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
		var all sync.WaitGroup
		for range agents {
			open := &Sessions{}
			open.Add(New(Options{Broker: broker}))
			w := NewWatcher(WatcherOptions{Sessions: open, Catalog: noCatalog{},
				Connection: func(*Session, error) {}, Log: slog.New(slog.DiscardHandler)})
			all.Go(func() { _ = w.Run(ctx) })
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

// A watch that failed waits, but not if somebody wants it now.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		broker, open := &absentBroker{}, &Sessions{}
		s := New(Options{Broker: broker})
		open.Add(s)
		w := NewWatcher(WatcherOptions{Sessions: open, Catalog: noCatalog{},
			Connection: func(*Session, error) {}, Log: slog.New(slog.DiscardHandler)})
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		before := len(broker.calls)
		s.Retry()
		synctest.Wait()
		if len(broker.calls) != before+1 {
			t.Errorf("%d calls instead of %d", len(broker.calls), before+1)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// speakingBroker sends one reservation, whose ID is its name, and then waits.
type speakingBroker struct {
	transporttest.Broker
	name  string
	ended chan string // receives name when the watch ends
}

func (b *speakingBroker) WatchCatalog(ctx context.Context, _, _ string, handle func(api.WatchEvent) error) error {
	shown := transport.Reservation{ID: b.name, Payload: api.Reservation{Consumer: "rome"}}
	err := handle(api.WatchEvent{Type: api.WatchReservation, Object: &shown})
	if err == nil {
		<-ctx.Done()
		err = handle(api.WatchEvent{Type: api.WatchReservation, Object: &shown})
	}
	b.ended <- b.name
	return err
}

// A Watcher watches sessions that are added before and after it starts, each until it is removed. What
// a removed one still says is dropped.
func TestAWatcherFollowsTheOpenSessions(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	said, ended := make(chan string, 10), make(chan string, 10)
	open := &Sessions{}
	session := func(name string) *Session {
		return New(Options{Via: "broker/" + name, Cluster: "rome", Broker: &speakingBroker{name: name, ended: ended}})
	}
	before, after := session("before"), session("after")
	open.Add(before)
	w := NewWatcher(WatcherOptions{
		Sessions: open, Catalog: noCatalog{}, Reservation: func(id string) { said <- id }, Connection: func(*Session,
			error) {
		}, Log: slog.New(slog.DiscardHandler),
	})
	running := make(chan error, 1)
	go func() { running <- w.Run(ctx) }()
	if id := <-said; id != "before" {
		t.Errorf("it hears of %s", id)
	}
	open.Add(after)
	if id := <-said; id != "after" {
		t.Errorf("it hears of %s", id)
	}
	open.Remove(before)
	if name := <-ended; name != "before" {
		t.Errorf("the watch of %s ended", name)
	}
	if left := open.Open(); len(left) != 1 || left[0] != after {
		t.Errorf("open are %v", left)
	}
	stop()
	if err := <-running; err != nil {
		t.Error(err)
	}
	if name := <-ended; name != "after" {
		t.Errorf("the watch of %s ended", name)
	}
	close(said)
	for id := range said {
		if id == "before" {
			t.Error("it hears what a removed session says")
		}
	}
}

// What a session does not keep keeps no worker busy: there can be more of it than there is memory for.
func TestOnlyWhatIsKeptIsLookedAt(t *testing.T) {
	var looked []string
	w := NewWatcher(WatcherOptions{Sessions: &Sessions{}, Log: slog.New(slog.DiscardHandler),
		Reservation: func(id string) { looked = append(looked, id) }})
	s := New(Options{Cluster: "rome"})
	for id, consumer := range map[string]string{"ours": "rome", "of-others": "oslo"} {
		w.handle(t.Context(), s, api.WatchEvent{Type: api.WatchReservation,
			Object: &transport.Reservation{ID: id, Payload: api.Reservation{Consumer: consumer}}})
	}
	if !slices.Equal(looked, []string{"ours"}) {
		t.Errorf("%q are looked at", looked)
	}
}
