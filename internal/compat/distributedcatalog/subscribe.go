package distributedcatalog

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

const (
	// maxSubscribers is how many WebSockets one cluster may have open.
	maxSubscribers = 16
	// maxFrame bounds what a subscriber may send, in bytes: nothing that it sends is looked at.
	maxFrame = 4 << 10
	// maxChatter is how many frames a subscriber may send at once, and in ten seconds.
	maxChatter = 100

	lookSoon  = 2 * time.Second  // how often it is looked whether something has changed, where that costs nothing
	lookAway  = 5 * time.Second  // and where it is a call to the broker
	lookOften = 30 * time.Second // how often it is looked at all, as silence changes nothing that is counted
	pingEvery = 18 * time.Second
	pongWait  = 20 * time.Second
	writeWait = 10 * time.Second // how long a reader may take for one piece of a message
	perPiece  = 64 << 10         // how many bytes a piece has
)

// errSame says that nothing can have changed.
var errSame = errors.New("unchanged")

// subscription is the content and the pace of a stream to subscribers.
type subscription struct {
	// refuse answers a call that cannot be served.
	refuse func(w http.ResponseWriter, r *http.Request, err error)
	// read reads what a subscriber gets first or, if it is quiet, knows already. away: that cannot be
	// read now. Nil: nothing.
	read  func() (first []Catalog, away bool, err error)
	quiet bool
	// told, if set, is called once that was sent.
	told func()
	// look reads the catalog again; soon: it may say errSame.
	look func(ctx context.Context, soon bool) ([]Catalog, error)
	// every is how often.
	every time.Duration
	// write makes a frame of the catalog, of one provider, of why it cannot be read, or of the text
	// that it can again. nil: nothing is sent.
	write func(payload any) any
}

// subscribers are the WebSockets that are open. Nothing is queued for any: a slow one gets the
// newest state, or loses its connection.
type subscribers struct {
	ctx context.Context
	log *slog.Logger

	mu   sync.Mutex
	open map[string]*audience
}

// audience are the subscribers of one cluster. They share what one of them read.
type audience struct {
	size int // guarded by the lock of subscribers

	mu   sync.Mutex
	read time.Time
	last reading
}

// reading is a catalog as it was read, with what stands for each provider in it.
type reading struct {
	catalog []Catalog
	digests []digest
}

func readingOf(catalog []Catalog) reading {
	r := reading{catalog, make([]digest, len(catalog))}
	for i := range catalog {
		r.digests[i] = digestOf(&catalog[i])
	}
	return r
}

// first returns what a subscriber gets first.
func (a *audience) first(catalog []Catalog) map[string]digest {
	a.mu.Lock() // one after another, as each takes the memory of a provider's catalog
	defer a.mu.Unlock()
	known := map[string]digest{}
	for i, digest := range readingOf(catalog).digests {
		known[catalog[i].ClusterID] = digest
	}
	return known
}

// look reads the catalog for a subscriber, or takes what another has just read.
func (a *audience) look(ctx context.Context, f subscription, soon bool) (reading, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.read) < f.every/2 {
		return a.last, nil
	}
	catalog, err := f.look(ctx, soon)
	if err != nil {
		return reading{}, err
	}
	a.last, a.read = readingOf(catalog), time.Now()
	return a.last, nil
}

// enter adds a subscriber, and returns nil where there are too many.
func (s *subscribers) enter(who string) *audience {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]*audience{}
	}
	a := s.open[who]
	if a == nil {
		a = &audience{}
		s.open[who] = a
	}
	if a.size >= maxSubscribers {
		return nil
	}
	a.size++
	return a
}

func (s *subscribers) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[who].size--; s.open[who].size <= 0 {
		delete(s.open, who)
	}
}

// serve tells one subscriber until either side goes. A page of another site is refused.
func (s *subscribers) serve(w http.ResponseWriter, r *http.Request, who string, f subscription) {
	together := s.enter(who)
	if together == nil {
		server.CountRefused("subscriptions")
		f.refuse(w, r, api.Errorf(api.CodeTooManyRequests, "%s has %d subscriptions", who, maxSubscribers).Fix("close one"))
		return
	}
	defer s.leave(who)
	var first []Catalog
	var away bool
	if f.read != nil {
		var err error
		if first, away, err = f.read(); err != nil {
			f.refuse(w, r, err)
			return
		}
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = c.CloseNow() }()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	c.SetReadLimit(maxFrame)
	go func() {
		defer cancel()
		hear(ctx, c)
	}()
	go func() {
		defer cancel()
		ping(ctx, c)
	}()
	if err := f.tell(ctx, c, together, first, away); err != nil && ctx.Err() == nil {
		s.log.Debug("a subscriber is not told any more", "who", who, "error", err)
		why, _ := failed(err)
		_ = c.Close(websocket.StatusPolicyViolation, strings.ToValidUTF8(why.Error[:min(len(why.Error), 120)], ""))
		return
	}
	if s.ctx.Err() != nil {
		_ = c.Close(websocket.StatusGoingAway, "stopping")
	}
}

// hear reads what a subscriber sends, which nobody looks at, until it goes or sends too much.
func hear(ctx context.Context, c *websocket.Conn) {
	chatter := rate.NewLimiter(maxChatter/10, maxChatter)
	for chatter.Allow() {
		if _, _, err := c.Read(ctx); err != nil {
			return
		}
	}
	_ = c.Close(websocket.StatusPolicyViolation, "subscribers listen")
}

// ping finds out that a subscriber has gone.
func ping(ctx context.Context, c *websocket.Conn) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wait, done := context.WithTimeout(ctx, pongWait)
		err := c.Ping(wait)
		done()
		if err != nil {
			return
		}
	}
}
