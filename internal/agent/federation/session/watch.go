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
	// heardEvery is how often the bookmarks of one broker are reported at most. Each costs work here, and the broker
	// alone decides how many there are.
	heardEvery = 200 * time.Millisecond
)

// errShownAgain ends a watch that shows everything for the second time: each time costs a look at all that this
// cluster has. The next watch waits, longer and longer.
var errShownAgain = api.Errorf(api.CodeUnavailable, "the watch broke: it has a second snapshot").
	Fix("ask the operator of the broker")

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
	// Membership receives what the main broker says of another cluster's membership.
	Membership func(api.Membership)
	// Choice receives which providers this cluster chose at a broker, nil for all. via names the broker.
	Choice func(ctx context.Context, via string, providers *[]string)
	// Connection is called after each failure, and after successes, once in heardEvery at most.
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
				watches.Go(func() { w.watch(ctx, s, watches.Go) })
			}
		}
		select {
		case <-added:
		case <-ctx.Done():
			return nil
		}
	}
}

// following is how the watch of one session goes on. Only its goroutine uses it.
type following struct {
	*Session
	watcher *Watcher

	token string
	// wait is how long it waits after the next failure, and least the same after a watch that has shown all. least grows
	// while such watches are lost soon: each of them costs this cluster a look at all that it has.
	wait, least   time.Duration
	began, marked time.Time // the time of the watch, and of the last bookmark
	opened        bool      // the watch has sent its snapshot
	all           bool      // the snapshot is complete, and has not ended yet

	pace *pace // reports bookmarks
}

// watch watches the broker of a session until ctx ends or the session is removed. After a failure it waits
// longer and longer. Agents that lost their broker together do not return together.
func (w *Watcher) watch(ctx context.Context, s *Session, run func(func())) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()
	f := &following{Session: s, watcher: w, wait: firstWait, least: firstWait}
	f.pace = &pace{clock: s.Clock, pause: heardEvery, run: run, end: ctx.Done(), do: func() {
		w.Connection(s, nil)
		w.Sessions.callHeard()
	}}
	for ctx.Err() == nil {
		err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.endWatch()
		w.Catalog.MarkLost(s.Via)
		f.pace.drop()
		w.Connection(s, err)
		w.Sessions.callHeard()
		if api.CodeOf(err) == api.CodeInvalid {
			f.token = ""
			w.Catalog.DropToken(s.Via)
		}
		select {
		case <-s.Clock.After(f.wait/2 + rand.N(f.wait)):
		case <-s.awake:
			f.wait = firstWait
		case <-ctx.Done():
		}
		f.wait = min(2*f.wait, lastWait)
	}
}

// once watches until the watch breaks.
func (f *following) once(ctx context.Context) error {
	if f.Clock.Since(f.marked) > resumeWithin || f.countDropped() > 0 { // there may be room for what was dropped
		f.token = ""
	}
	if f.Greet != nil {
		if err := f.Greet(ctx); err != nil {
			return err
		}
	}
	f.began, f.opened, f.all = f.Clock.Now(), false, false
	err := f.Broker.WatchCatalog(ctx, f.token, f.watcher.Catalog.Token(f.Via),
		func(e api.WatchEvent) error { return f.follow(ctx, e) })
	switch {
	case f.marked.Before(f.began): // it has not shown all
	case f.Clock.Since(f.began) < lastWait:
		f.least = min(2*f.least, lastWait)
	default:
		f.wait, f.least = firstWait, firstWait
	}
	return err
}

// follow takes in one event of the watch, and hands it on.
func (f *following) follow(ctx context.Context, e api.WatchEvent) error {
	if err := f.open.Err(); err != nil { // the session was removed, and what it showed is forgotten
		return err
	}
	if e.Type == api.WatchSnapshot && f.opened {
		return errShownAgain
	}
	f.watcher.Catalog.Record(f.Via, e)
	switch e.Type {
	case api.WatchBookmark:
		f.token, f.wait, f.marked, f.all = e.Token, f.least, f.Clock.Now(), false
	case api.WatchSnapshot:
		if f.opened, f.all = true, e.Complete; f.all {
			f.token = "" // what was shown until the last bookmark is forgotten now, also if this watch breaks
		}
	case api.WatchCatalog: // a broker that knows the token sends a whole catalog too, for example for a new card
		if f.all && e.Complete && IsBroker(f.Via) && f.watcher.Offers != nil {
			f.watcher.Offers.ForgetShown()
		}
	}
	if f.watcher.handle(ctx, f.Session, e); e.Type == api.WatchBookmark {
		f.grown.Store(e.Grown)
		f.pace.ask()
		if f.completeWatch() {
			f.watcher.Complete(ctx)
		}
	}
	return nil
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
			w.Membership(*e.Standing)
		}
	}
}

// choose hands on which providers this cluster chose at a broker.
func (w *Watcher) choose(ctx context.Context, s *Session, providers *[]string) {
	if IsBroker(s.Via) && w.Choice != nil {
		w.Choice(ctx, s.Via, providers)
	}
}
