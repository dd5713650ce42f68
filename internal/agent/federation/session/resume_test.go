package session

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// scriptedBroker answers each watch by one part of a script, and is away after that.
type scriptedBroker struct {
	transporttest.Broker
	script []func(token string, handle func(api.WatchEvent)) // each returns when the watch breaks
	tokens []string
	all    int // how often ForgetShown was called
}

func (b *scriptedBroker) Compare(api.SellerOffers) {}
func (b *scriptedBroker) ForgetShown()             { b.all++ }

func (b *scriptedBroker) WatchCatalog(_ context.Context, token, _ string, handle func(api.WatchEvent) error) error {
	b.tokens = append(b.tokens, token)
	if len(b.script) > 0 {
		next := b.script[0]
		b.script = b.script[1:]
		next(token, func(e api.WatchEvent) { _ = handle(e) })
	}
	return transporttest.Away
}

// watchScript runs a watch of a broker for a time, and returns its session.
func watchScript(t *testing.T, broker *scriptedBroker, long time.Duration) *Session {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	open, s := &Sessions{}, New(Options{Cluster: "rome", Broker: broker})
	open.Add(s)
	w := NewWatcher(WatcherOptions{Sessions: open, Catalog: noCatalog{}, Reservation: func(string) {},
		Offers: broker, Complete: func(context.Context) {}, Connection: func(*Session, error) {},
		Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	time.Sleep(long)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return s
}

func shownBy(id string) api.WatchEvent {
	return api.WatchEvent{Type: api.WatchReservation, Object: &transport.Reservation{ID: id,
		Payload: api.Reservation{Consumer: "rome"}}}
}

// showsAll is a watch that shows everything, and ends after its bookmark.
func showsAll(_ string, handle func(api.WatchEvent)) {
	handle(api.WatchEvent{Type: api.WatchSnapshot, Complete: true})
	handle(shownBy("r-1"))
	handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.5"})
}

// A snapshot that breaks before its bookmark is followed by a whole one: the session forgot what it had.
func TestASnapshotBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &scriptedBroker{script: []func(string, func(api.WatchEvent)){
			showsAll,
			func(_ string, handle func(api.WatchEvent)) { // the broker does not know the token now
				handle(api.WatchEvent{Type: api.WatchSnapshot, Complete: true})
			},
			func(token string, handle func(api.WatchEvent)) { // it does again
				handle(api.WatchEvent{Type: api.WatchSnapshot, Complete: token == ""})
				if token == "" {
					handle(shownBy("r-1"))
				}
				handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.7"})
				time.Sleep(time.Hour) // it stays open
			},
		}}
		if s := watchScript(t, broker, time.Minute); s.Shown("r-1") == nil {
			t.Errorf("r-1 is lost; it watched with %q", broker.tokens)
		}
	})
}

// A broker that was away for long shows everything again: it has perhaps forgotten what ended meanwhile.
func TestABrokerThatWasAwayForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &scriptedBroker{script: []func(string, func(api.WatchEvent)){showsAll}}
		watchScript(t, broker, time.Hour)
		if last := broker.tokens[len(broker.tokens)-1]; last != "a.5" {
			t.Errorf("after an hour it continues at %q", last)
		}
		broker.script, broker.tokens = append(broker.script, func(_ string, handle func(api.WatchEvent)) {
			handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.5"})
		}), nil
		watchScript(t, broker, market.Retention)
		if last := broker.tokens[len(broker.tokens)-1]; last != "" {
			t.Errorf("after %s it continues at %q", market.Retention, last)
		}
	})
}

// A broker shows all if both parts of its watch are complete. A whole catalog alone, or a later one, does not count.
func TestABrokerShowsAll(t *testing.T) {
	begins := func(all, catalog bool) func(string, func(api.WatchEvent)) {
		return func(_ string, handle func(api.WatchEvent)) {
			handle(api.WatchEvent{Type: api.WatchSnapshot, Complete: all})
			handle(api.WatchEvent{Type: api.WatchCatalog, Complete: catalog})
			handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.5"})
			handle(api.WatchEvent{Type: api.WatchCatalog, Complete: true}) // the cluster showed a new card
			handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.6"})
		}
	}
	for name, c := range map[string]struct {
		all, catalog bool
		want         int
	}{
		"of another lineage":    {true, true, 1},
		"after a long time":     {true, false, 0},
		"the log was too short": {false, true, 0},
		"continued":             {false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := &scriptedBroker{script: []func(string, func(api.WatchEvent)){begins(c.all, c.catalog)}}
				if watchScript(t, broker, time.Minute); broker.all != c.want {
					t.Errorf("called %d times, want %d", broker.all, c.want)
				}
			})
		})
	}
}

// A broker that showed more than is kept shows everything again with the next watch: there may be room now.
func TestABrokerShowedMoreThanIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &scriptedBroker{script: []func(string, func(api.WatchEvent)){
			func(_ string, handle func(api.WatchEvent)) {
				handle(api.WatchEvent{Type: api.WatchReservation, Object: &transport.Reservation{ID: "of-others"}})
				showsAll("", handle)
				handle(api.WatchEvent{Type: api.WatchReservation, Object: &transport.Reservation{ID: "of-others"}})
				handle(api.WatchEvent{Type: api.WatchBookmark, Token: "a.6"})
			},
			showsAll,
		}}
		if watchScript(t, broker, time.Minute); len(broker.tokens) < 3 || broker.tokens[1] != "" || broker.tokens[2] != "a.5" {
			t.Errorf("it watched with %q", broker.tokens)
		}
	})
}
