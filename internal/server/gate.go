package server

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds are what peers may hold open. A field that is 0 is its default.
type Bounds struct {
	// Connections is how many connections a listener has at a time: 32,768, or three quarters of the files that the process may open.
	// Strangers is how many of them may be of peers that no call has identified yet: a quarter of Connections.
	Connections, Strangers int
	// OfCaller is how many connections a caller may have at one listener: 128.
	OfCaller int
	// Hurry is how long a stranger keeps its connection while others wait for one: 3 s.
	Hurry time.Duration
	// Slow is how long a peer may take to read 16 KiB, or to send the first bytes of a body: 10 s. Each second after that it has to send 16 KiB.
	Slow time.Duration
	// Watches is how many watches a member may have: 16. Calls is how many calls a caller may have in hand, 32, and Large how many of these
	// may have a body of more than 64 KiB: 2. More wait their turn for Patience: 5 s.
	Watches, Calls, Large int
	Patience              time.Duration
}

// orDefault fills in what is 0.
func (b Bounds) orDefault() Bounds {
	b.Connections = cmp.Or(b.Connections, min(32<<10, openFiles()/4*3))
	b.Strangers = cmp.Or(b.Strangers, max(1, b.Connections/4))
	b.OfCaller = cmp.Or(b.OfCaller, 128)
	b.Hurry = cmp.Or(b.Hurry, 3*time.Second)
	b.Slow = cmp.Or(b.Slow, slow)
	b.Watches, b.Calls, b.Large = cmp.Or(b.Watches, 16), cmp.Or(b.Calls, 32), cmp.Or(b.Large, 2)
	b.Patience = cmp.Or(b.Patience, 5*time.Second)
	return b
}

// unlimited is the number of files of a process that may open any.
const unlimited = 1 << 20

// flow is how many bytes a peer has to read, or to send, in a while.
const flow = 16 << 10

// gate is a listener whose connections are bounded. A connection is a stranger's until a call on it has shown who calls. Honest peers show
// that at once, so where there are too many strangers, those go that have been there for longest.
type gate struct {
	net.Listener
	bounds Bounds

	mu        sync.Mutex
	less      sync.Cond // there are fewer connections, or the listener is closed
	closed    bool
	all       int
	strangers map[string][]*guest // by address, oldest first
	unknown   int                 // of strangers, all together
	callers   map[string]map[*guest]struct{}
}

func newGate(l net.Listener, b Bounds) *gate {
	g := &gate{Listener: l, bounds: b.orDefault(), strangers: map[string][]*guest{}, callers: map[string]map[*guest]struct{}{}}
	g.less.L = &g.mu
	return g
}

// guest is one connection.
type guest struct {
	net.Conn
	gate    *gate
	since   time.Time
	address string

	// Guarded by the gate's lock.
	caller string    // empty: it is a stranger's
	idle   time.Time // since when no call is under way; zero: one is, or it is new
	gone   bool
}

// Accept implements net.Listener. It waits where there are too many connections.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if guest := g.admit(c); guest != nil {
			return guest, nil
		}
		_ = c.Close()
		refused("connections")
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.less.Broadcast()
	g.mu.Unlock()
	return g.Listener.Close()
}

// admit finds a place for a connection, and nil where there is none in the time for it.
func (g *gate) admit(c net.Conn) *guest {
	begun := time.Now()
	n := &guest{Conn: c, gate: g, address: addressOf(c)}
	var out []*guest
	defer func() {
		for _, old := range out {
			refused("slow_strangers")
			_ = old.Conn.Close()
		}
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.closed && (g.all >= g.bounds.Connections || g.unknown >= g.bounds.Strangers) {
		old := g.slowest()
		if old == nil && g.unknown < g.bounds.Strangers {
			old = g.longestIdle()
		}
		if old != nil {
			g.drop(old)
			out = append(out, old)
			continue
		}
		if time.Since(begun) > 2*g.bounds.Hurry {
			return nil
		}
		later := time.AfterFunc(g.bounds.Hurry/8, g.less.Broadcast)
		g.less.Wait()
		later.Stop()
	}
	if g.closed {
		return nil
	}
	n.since = time.Now()
	g.strangers[n.address] = append(g.strangers[n.address], n)
	g.unknown++
	g.all++
	openConnections.Add(1)
	return n
}

// slowest is the stranger that goes for another: of the address that has most, the oldest, unless it has just come.
func (g *gate) slowest() *guest {
	var of []*guest
	for _, them := range g.strangers {
		if time.Since(them[0].since) > g.bounds.Hurry && len(them) > len(of) {
			of = them
		}
	}
	if of == nil {
		return nil
	}
	return of[0]
}

// longestIdle is the connection that goes for another: of the caller that has most that are idle, the one that is so for longest.
func (g *gate) longestIdle() (found *guest) {
	most := 0
	for caller, them := range g.callers {
		if n := idle(them); n > most {
			most, found = n, g.idlest(caller)
		}
	}
	return found
}

func idle(them map[*guest]struct{}) (n int) {
	for one := range them {
		if !one.idle.IsZero() {
			n++
		}
	}
	return n
}

func (g *gate) idlest(caller string) (found *guest) {
	for one := range g.callers[caller] {
		if !one.idle.IsZero() && (found == nil || one.idle.Before(found.idle)) {
			found = one
		}
	}
	return found
}

// drop forgets a connection. Close it afterwards.
func (g *gate) drop(n *guest) {
	if n.gone {
		return
	}
	n.gone = true
	g.all--
	g.leave(n)
	openConnections.Add(-1)
	g.less.Broadcast()
}

func (g *gate) leave(n *guest) {
	if n.caller != "" {
		if delete(g.callers[n.caller], n); len(g.callers[n.caller]) == 0 {
			delete(g.callers, n.caller)
		}
		return
	}
	g.unknown--
	them := g.strangers[n.address]
	if at := slices.Index(them, n); at >= 0 {
		them = slices.Delete(them, at, at+1)
	}
	if g.strangers[n.address] = them; len(them) == 0 {
		delete(g.strangers, n.address)
	}
}

// belongs notes whose a connection is. It says no where the caller has too many of which none is idle; else the one that is idle for longest goes.
func (n *guest) belongs(caller string) bool {
	g := n.gate
	g.mu.Lock()
	if n.gone || n.caller == caller {
		g.mu.Unlock()
		return true
	}
	var old *guest
	if len(g.callers[caller]) >= g.bounds.OfCaller {
		if old = g.idlest(caller); old == nil {
			g.mu.Unlock()
			return false
		}
		g.drop(old)
	}
	g.leave(n)
	if g.callers[caller] == nil {
		g.callers[caller] = map[*guest]struct{}{}
	}
	g.callers[caller][n], n.caller = struct{}{}, caller
	g.less.Broadcast()
	g.mu.Unlock()
	if old != nil {
		refused("idle_connections")
		_ = old.Conn.Close()
	}
	return true
}

// rests notes whether a call is under way.
func (n *guest) rests(idle bool) {
	n.gate.mu.Lock()
	defer n.gate.mu.Unlock()
	n.idle = time.Time{}
	if idle {
		n.idle = time.Now()
	}
}

// Close implements net.Conn.
func (n *guest) Close() error {
	n.gate.mu.Lock()
	n.gate.drop(n)
	n.gate.mu.Unlock()
	return n.Conn.Close()
}

// Write implements net.Conn. A peer that reads gets all the time that it needs, one that does not read loses its connection.
func (n *guest) Write(data []byte) (written int, err error) {
	for len(data) > 0 && err == nil {
		piece := data[:min(len(data), flow)]
		if err = n.Conn.SetWriteDeadline(time.Now().Add(n.gate.bounds.Slow)); err != nil {
			break
		}
		var m int
		m, err = n.Conn.Write(piece)
		written, data = written+m, data[m:]
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		refused("slow_readers")
	}
	return written, err
}

// addressOf is the address of a peer, for counting: of IPv6 the network that a site has.
func addressOf(c net.Conn) string {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().Network()
	}
	address := at.Addr().Unmap()
	if address.Is6() {
		if site, err := address.WithZone("").Prefix(64); err == nil {
			return site.String()
		}
	}
	return address.String()
}

// guestOf is the guest under a connection, nil where there is none.
func guestOf(c net.Conn) *guest {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	n, _ := c.(*guest)
	return n
}

// flowing serves calls whose bodies come slowly as long as they come, and ends those that do not come.
func flowing(h http.Handler, b Bounds) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			body := &flowingBody{ReadCloser: r.Body, control: http.NewResponseController(w), until: time.Now().Add(b.Slow)}
			_ = body.control.SetReadDeadline(body.until) // also of what nobody reads: net/http does
			with := *r
			with.Body = body
			r = &with
		}
		h.ServeHTTP(w, r)
	})
}

// flowingBody is a body that has to come.
type flowingBody struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

// Read implements io.Reader.
func (b *flowingBody) Read(into []byte) (int, error) {
	_ = b.control.SetReadDeadline(b.until)
	n, err := b.ReadCloser.Read(into)
	b.until = b.until.Add(time.Duration(n) * time.Second / flow)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // the connection stays, and net/http listens whether the caller goes
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		refused("slow_bodies")
	}
	return n, err
}

// follow has the gate know which connections rest.
func follow(s *http.Server) {
	before := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if n := guestOf(c); n != nil {
			switch state {
			case http.StateActive, http.StateHijacked:
				n.rests(false)
			case http.StateIdle:
				n.rests(true)
			}
		}
		if before != nil {
			before(c, state)
		}
	}
}
