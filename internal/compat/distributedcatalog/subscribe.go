package distributedcatalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
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

// feed is what a subscriber is told.
type feed struct {
	// read reads what it is told first or, where it is quiet, knows already; away: that cannot be
	// read now. Not ok: it has refused the call. Nil: nothing.
	read  func() (first []Catalog, away, ok bool)
	quiet bool
	// told, if set, is called when it was told that.
	told func()
	// look reads the catalog again; soon: it may say errSame.
	look func(ctx context.Context, soon bool) ([]Catalog, error)
	// every is how often.
	every time.Duration
	// write makes a frame of the catalog, of one provider, of why it cannot be read, or of the text
	// that it can again; nil: that is not told.
	write func(payload any) any
}

// subscribers are the WebSockets that are open. Nothing is queued for any: who is slow is told the
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

// first is what a subscriber is told first.
func (a *audience) first(catalog []Catalog) map[string]digest {
	a.mu.Lock() // one after another, as each takes the memory of a provider's catalog
	defer a.mu.Unlock()
	known := map[string]digest{}
	for i, is := range readingOf(catalog).digests {
		known[catalog[i].ClusterID] = is
	}
	return known
}

// look reads the catalog for a subscriber, or takes what another has just read.
func (a *audience) look(ctx context.Context, f feed, soon bool) (reading, error) {
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
func (s *subscribers) serve(w http.ResponseWriter, r *http.Request, who string, f feed) {
	together := s.enter(who)
	if together == nil {
		server.CountRefused("subscriptions")
		why, status := failed(api.Errorf(api.CodeTooManyRequests, "%s has %d subscriptions", who, maxSubscribers).
			Fix("close one"))
		answerJSON(w, status, why)
		return
	}
	defer s.leave(who)
	var first []Catalog
	var away bool
	if f.read != nil {
		var ok bool
		if first, away, ok = f.read(); !ok {
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

// tell sends what is, and what changes. It returns why it cannot any more.
func (f feed) tell(ctx context.Context, c *websocket.Conn, together *audience, first []Catalog, away bool) error {
	if !f.quiet {
		if err := f.send(ctx, c, first); err != nil {
			return err
		}
	}
	known := together.first(first)
	if f.told != nil {
		f.told()
	}
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := together.look(ctx, f, time.Since(looked) < lookOften)
		if errors.Is(err, errSame) {
			continue
		}
		looked = time.Now()
		if code := api.CodeOf(err); err != nil && (code == api.CodeUnavailable || code == api.CodeTooManyRequests) {
			if !away {
				if err := f.send(ctx, c, err); err != nil {
					return err
				}
			}
			away = true
			continue
		}
		if err != nil {
			return err
		}
		if away {
			if err := f.send(ctx, c, "Broker is back"); err != nil {
				return err
			}
		}
		away = false
		for _, changed := range difference(known, now) {
			if err := f.send(ctx, c, changed); err != nil {
				return err
			}
		}
	}
}

func (f feed) send(ctx context.Context, c *websocket.Conn, payload any) error {
	made := f.write(payload)
	if made == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(writeWait, cancel)
	defer late.Stop()
	message, err := c.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	if err := writeJSON(pieces{message, late}, made); err != nil {
		return err
	}
	return message.Close()
}

// pieces writes a piece at a time: each may take its reader as long as writeWait.
type pieces struct {
	io.Writer
	late *time.Timer
}

// Write implements io.Writer.
func (p pieces) Write(data []byte) (written int, err error) {
	for err == nil && written < len(data) {
		p.late.Reset(writeWait)
		var n int
		n, err = p.Writer.Write(data[written:min(len(data), written+perPiece)])
		written += n
	}
	return written, err
}

// difference is what has changed of what is known, which becomes what is now. Of a provider that
// sells nothing any more there is one with its ID and no offers.
func difference(known map[string]digest, now reading) (out []Catalog) {
	gone := map[string]bool{}
	for id := range known {
		gone[id] = true
	}
	for i := range now.catalog {
		c := &now.catalog[i]
		delete(gone, c.ClusterID)
		if is := now.digests[i]; known[c.ClusterID] != is {
			known[c.ClusterID] = is
			out = append(out, *c)
		}
	}
	for id := range gone {
		delete(known, id)
		out = append(out, Catalog{Provider: Provider{ClusterID: id, ClusterName: id}, Offers: []Offer{}})
	}
	slices.SortFunc(out, func(a, b Catalog) int {
		if a.ClusterID < b.ClusterID {
			return -1
		}
		return 1
	})
	return out
}

// digest stands for what a subscriber was told of a provider.
type digest [sha256.Size]byte

func digestOf(c *Catalog) digest {
	data, _ := json.Marshal(c)
	return sha256.Sum256(data)
}
