package session

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// firstWait is how long a Watcher waits after the first failure, on average three quarters of it more. Each
// wait is twice the one before, up to lastWait.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = 30 * time.Second
	// resumeWithin is how long after the last bookmark a watch may continue there. Later the broker has perhaps
	// forgotten a reservation that ended meanwhile. It would not say so, and the session would show it for ever.
	resumeWithin = market.Retention / 2
)

// Catalog keeps what each broker shows of the catalog.
type Catalog interface {
	// Token is from where the watch of a session continues.
	Token(via string) string
	// DropToken makes it start from the beginning.
	DropToken(via string)
	Record(via string, e api.WatchEvent)
	MarkLost(via string)
}

// Offers compares what brokers show of sellers with what they showed before.
type Offers interface {
	Compare(api.SellerOffers)
	// ForgetShown is called before a broker shows all reservations and the whole catalog: it may have been
	// restored from a backup.
	ForgetShown()
}

// WatcherOptions say what is watched, and who receives what brokers say. A receiver must not block for long:
// the watch waits for it.
type WatcherOptions struct {
	Sessions *Sessions
	Catalog  Catalog
	// Reservation receives the ID of each reservation in an event of a broker that the session keeps.
	Reservation func(id string)
	// Complete is called when a watch has shown all that the broker knows, for the first time since it was
	// lost: the broker may miss some of what the Ledger has.
	Complete func(context.Context)
	// Handshake receives each message of another cluster, on the way to a peering.
	Handshake func(ctx context.Context, document string)
	// Offers receives what brokers show of sellers. Nil: nothing does.
	Offers Offers
	// Standing receives what the main broker says of another cluster's membership.
	Standing func(api.Standing)
	// Choice receives which providers this cluster chose at a broker, nil for all. via names the broker.
	Choice func(ctx context.Context, via string, providers *[]string)
	// Connection is called after each success and failure.
	Connection func(*Session, error)
	Log        *slog.Logger
}

// Watcher watches the brokers of all open sessions.
type Watcher struct{ WatcherOptions }

// NewWatcher returns a Watcher.
func NewWatcher(o WatcherOptions) *Watcher { return &Watcher{o} }

// Run watches the open sessions, also those that are added later, until ctx ends. It watches each until
// it is removed.
func (w *Watcher) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	watched := map[*Session]bool{}
	for {
		open, added := w.Sessions.openUntilAdd()
		maps.DeleteFunc(watched, func(s *Session, _ bool) bool { return !slices.Contains(open, s) })
		for _, s := range open {
			if !watched[s] {
				watched[s] = true
				watches.Go(func() { w.watch(ctx, s) })
			}
		}
		select {
		case <-added:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch watches the broker of a session until ctx ends or the session is removed. After a failure it waits
// longer and longer. Agents that lost their broker together do not return together.
func (w *Watcher) watch(ctx context.Context, s *Session) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()
	token, wait, marked, all := "", firstWait, time.Time{}, false
	handle := func(e api.WatchEvent) error {
		if err := s.open.Err(); err != nil { // the session was removed, and what it showed is forgotten
			return err
		}
		w.Catalog.Record(s.Via, e)
		switch e.Type {
		case api.WatchBookmark:
			token, wait, marked, all = e.Token, firstWait, s.Clock.Now(), false
		case api.WatchSnapshot:
			if all = e.Complete; all {
				token = "" // what was shown until the last bookmark is forgotten now, also if this watch breaks
			}
		case api.WatchCatalog: // a broker that knows the token sends a whole catalog too, for example for a new card
			if all && e.Complete && IsBroker(s.Via) && w.Offers != nil {
				w.Offers.ForgetShown()
			}
		}
		w.handle(ctx, s, e)
		return nil
	}
	for ctx.Err() == nil {
		if s.Clock.Since(marked) > resumeWithin || s.countDropped() > 0 { // there may be room for what was dropped
			token = ""
		}
		err := error(nil)
		if s.Greet != nil {
			err = s.Greet(ctx)
		}
		if err == nil {
			err = s.Broker.WatchCatalog(ctx, token, w.Catalog.Token(s.Via), handle)
		}
		if ctx.Err() != nil {
			return
		}
		s.endWatch()
		w.Catalog.MarkLost(s.Via)
		w.Connection(s, err)
		w.Sessions.callHeard()
		if api.CodeOf(err) == api.CodeInvalid {
			token = ""
			w.Catalog.DropToken(s.Via)
		}
		select {
		case <-s.Clock.After(wait/2 + rand.N(wait)):
		case <-s.awake:
			wait = firstWait
		case <-ctx.Done():
		}
		wait = min(2*wait, lastWait)
	}
}

// handle hands on one event.
func (w *Watcher) handle(ctx context.Context, s *Session, e api.WatchEvent) {
	switch e.Type {
	case api.WatchSnapshot:
		s.beginWatch(e.Complete)
		w.choose(ctx, s, e.Providers)
	case api.WatchChoice:
		w.choose(ctx, s, e.Providers)
	case api.WatchReservation:
		switch {
		case s.Record(e.Object):
			w.Reservation(e.Object.ID)
		case s.countDropped() == 1:
			w.Log.Warn("a broker sends more reservations than are kept, or some that do not concern this cluster",
				"broker", s.Name(), "reservation", e.Object.ID)
		}
	case api.WatchHandshake:
		w.Handshake(ctx, e.Document)
	case api.WatchSeller:
		if IsBroker(s.Via) && e.Seller != nil && w.Offers != nil {
			w.Offers.Compare(*e.Seller)
		}
	case api.WatchStanding:
		// brokers may differ, and at a connector each known cluster is a member: the main broker's
		// word is shown
		if s.Via == "" {
			w.Standing(*e.Standing)
		}
	case api.WatchBookmark:
		s.grown.Store(e.Grown)
		w.Connection(s, nil)
		w.Sessions.callHeard()
		if s.completeWatch() {
			w.Complete(ctx)
		}
	}
}

// choose hands on which providers this cluster chose at a broker.
func (w *Watcher) choose(ctx context.Context, s *Session, providers *[]string) {
	if IsBroker(s.Via) && w.Choice != nil {
		w.Choice(ctx, s.Via, providers)
	}
}
