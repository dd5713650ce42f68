package ui

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	// questionsEvery is how often the questions of a page that somebody looks at are asked again: they have no watch.
	questionsEvery = 10 * time.Second
	// renderEvery is the shortest time between two renders of a page.
	renderEvery = time.Second
	// sendWithin bounds how long a browser may take to read an update.
	sendWithin = 10 * time.Second
	// longestTarget is the longest path with its query that a page may show, in bytes.
	longestTarget = 8 << 10
)

// Live keeps pages that are open up to date. A page has one WebSocket, by which it says what it shows; it gets that page
// again whenever it has changed.
type Live struct {
	pages http.Handler

	mu      sync.Mutex
	changed chan struct{} // closed at the next version
	soon    bool          // a version is coming
	last    time.Time     // of the last version
	renders map[string]*rendering
	open    map[*websocket.Conn]bool
}

// rendering is one page in one version.
type rendering struct {
	once sync.Once
	html string
	hash [sha256.Size]byte
}

func newLive(pages http.Handler) *Live {
	return &Live{pages: pages, changed: make(chan struct{}), renders: map[string]*rendering{},
		open: map[*websocket.Conn]bool{}}
}

// Change has the pages rendered again, at most once per renderEvery.
func (l *Live) Change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.soon {
		return
	}
	l.soon = true
	time.AfterFunc(max(0, renderEvery-time.Since(l.last)), l.next)
}

// next begins a version.
func (l *Live) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soon, l.last = false, time.Now()
	clear(l.renders)
	close(l.changed)
	l.changed = make(chan struct{})
}

// render returns a page as it is now. Pages that show the same are rendered once for a version.
func (l *Live) render(ctx context.Context, target string) *rendering {
	l.mu.Lock()
	r := l.renders[target]
	if r == nil {
		r = &rendering{}
		l.renders[target] = r
	}
	l.mu.Unlock()
	r.once.Do(func() {
		request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, target, nil)
		if err != nil {
			return
		}
		var to buffer
		l.pages.ServeHTTP(&to, request)
		if to.header.Get("Location") == "" {
			r.html = to.String()
			r.hash = sha256.Sum256([]byte(r.html))
		}
	})
	return r
}

// ServeHTTP serves the WebSocket of a page.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	c.SetReadLimit(longestTarget)
	l.mu.Lock()
	l.open[c] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
		_ = c.CloseNow()
	}()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	targets := make(chan string, 1)
	go func() {
		defer cancel()
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return
			}
			select { // the newest counts
			case <-targets:
			default:
			}
			targets <- string(text)
		}
	}()
	l.update(ctx, c, targets)
}

// update sends a page to its browser whenever it differs, until ctx ends. A target that is empty is that of a page that
// nobody sees.
func (l *Live) update(ctx context.Context, c *websocket.Conn, targets <-chan string) {
	target, sent := "", [sha256.Size]byte{}
	again := time.NewTicker(questionsEvery)
	defer again.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if u, err := url.Parse(target); err == nil && u.Host == "" && strings.HasPrefix(target, "/") {
			if r := l.render(ctx, target); r.html != "" && r.hash != sent && len(targets) == 0 {
				within, cancel := context.WithTimeout(ctx, sendWithin)
				err := c.Write(within, websocket.MessageText, []byte(r.html))
				cancel()
				if err != nil {
					return
				}
				sent = r.hash
			}
		}
		select {
		case <-ctx.Done():
			return
		case target = <-targets:
			sent = [sha256.Size]byte{}
		case <-changed:
		case <-again.C:
			if target != "" {
				l.Change()
			}
		}
	}
}

// Close ends the connections of all pages. A server does not end them itself.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.CloseNow()
	}
}

// Pages returns how many pages are open.
func (l *Live) Pages() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// buffer is an answer in memory.
type buffer struct {
	strings.Builder
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header {
	if b.header == nil {
		b.header = http.Header{}
	}
	return b.header
}

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(status int) { b.status = status }
