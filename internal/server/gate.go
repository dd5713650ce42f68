package server

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds are what peers may hold open. A field that is 0 is its default.
type Bounds struct {
	// Connections is how many connections a listener has at a time: 32,768, or three fifths of the files that the process may open.
	// Strangers is how many of them may be of peers that no call has identified yet: a quarter of Connections.
	// Waiting is how many more may wait for a place: as many as Strangers. Each waits for Slow.
	Connections, Strangers, Waiting int
	// OfCaller is how many connections a caller may have at one listener: 128.
	OfCaller int
	// Hurry is how long a stranger keeps its connection while others of its address wait for one: 3 s.
	Hurry time.Duration
	// Slow is how long a peer may take to read 16 KiB, or to send the first bytes of a body: 10 s. Each second after that it has to send 16 KiB.
	Slow time.Duration
	// Watches is how many watches a member may have: 16. Calls is how many calls a caller may have in hand, 32, and Large how many of these
	// may have a body of more than 64 KiB: 2. More wait their turn for Patience: 5 s.
	Watches, Calls, Large int
	Patience              time.Duration
	// Quiet is how long a watch may send nothing before a bookmark shows that it is alive, and how often the server checks that its caller may
	// still call: 20 s.
	Quiet time.Duration
}

// orDefault fills in what is 0.
func (b Bounds) orDefault() Bounds {
	b.Connections = cmp.Or(b.Connections, min(32<<10, openFiles()/5*3))
	b.Strangers = cmp.Or(b.Strangers, max(1, b.Connections/4))
	b.Waiting = cmp.Or(b.Waiting, b.Strangers)
	b.OfCaller = cmp.Or(b.OfCaller, 128)
	b.Hurry = cmp.Or(b.Hurry, 3*time.Second)
	b.Slow = cmp.Or(b.Slow, slow)
	b.Watches, b.Calls, b.Large = cmp.Or(b.Watches, 16), cmp.Or(b.Calls, 32), cmp.Or(b.Large, 2)
	b.Patience, b.Quiet = cmp.Or(b.Patience, 5*time.Second), cmp.Or(b.Quiet, 20*time.Second)
	return b
}

// unlimited is the number of files of a process that may open any.
const unlimited = 1 << 20

// flow is how many bytes a peer has to read, or to send, in a while.
const flow = 16 << 10

// gate is a listener whose connections are bounded. A connection is a stranger's until a call on it has shown who calls. Where there are too
// many strangers, each address has its share: a new connection of another address takes the place of the oldest of the address that has most.
// Only a new connection of that address itself waits, beside the loop that accepts.
type gate struct {
	net.Listener
	bounds  Bounds
	receive sync.Once // begins to accept

	mu        sync.Mutex
	changed   sync.Cond // of ready, failure and closed
	ready     []*guest  // have a place, and were not returned by Accept yet
	failure   error     // of the listener, until Accept returns it
	closed    bool
	all       int            // connections that have a place
	callers   map[string]int // how many of them callers have that are known
	strangers crowds         // the others, by address
	resting   crowds         // those of known callers, by caller; some of them with a call under way
	waiting   crowds         // connections that wait for a place, by address
	later     *time.Timer    // looks after those that wait; nil: none does
	out       []*guest       // that unlock closes
}

func newGate(l net.Listener, b Bounds) *gate {
	g := &gate{Listener: l, bounds: b.orDefault(), callers: map[string]int{}}
	g.changed.L = &g.mu
	return g
}

// guest is one connection.
type guest struct {
	net.Conn
	gate    *gate
	address string
	begun   atomic.Bool // it has sent the headers of a call
	heard   int         // bytes that came before that
	// idle is since when no call is under way, in nanoseconds since started; 0: a call is. A busy connection leaves its crowd only when the gate
	// looks for one that rests: so a call need not lock the gate. aside says that it has left.
	idle  atomic.Int64
	aside atomic.Bool

	// Guarded by the gate's lock.
	caller string // empty: it is a stranger's
	placed bool
	gone   bool
	crowd  *crowd // that it is one of, nil while it is aside
	link   *list.Element
	since  time.Time // when it came to its crowd
}

// Accept implements net.Listener. It returns connections that have a place.
func (g *gate) Accept() (net.Conn, error) {
	g.receive.Do(func() { go g.receiveAll() })
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch {
		case g.closed:
			return nil, net.ErrClosed
		case len(g.ready) > 0:
			n := g.ready[0]
			if g.ready = g.ready[1:]; !n.gone {
				return n, nil
			}
		case g.failure != nil:
			err := g.failure
			g.failure = nil
			g.changed.Broadcast()
			return nil, err
		default:
			g.changed.Wait()
		}
	}
}

// receiveAll receives connections until the gate is closed. After an error of the listener it waits until Accept has returned that.
func (g *gate) receiveAll() {
	for {
		c, err := g.Listener.Accept()
		if err == nil {
			g.come(c)
			continue
		}
		g.mu.Lock()
		for g.failure = err; g.failure != nil && !g.closed; {
			g.changed.Broadcast()
			g.changed.Wait()
		}
		over := g.closed
		g.mu.Unlock()
		if over {
			return
		}
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.unlock()
	g.closed = true
	for g.waiting.all > 0 {
		g.end(g.waiting.largest().oldest())
	}
	for _, n := range g.ready {
		g.end(n)
	}
	g.ready = nil
	g.changed.Broadcast()
	return g.Listener.Close()
}

// unlock unlocks the gate, and then closes the connections that were ended.
func (g *gate) unlock() {
	out := g.out
	g.out = nil
	g.mu.Unlock()
	for _, n := range out {
		_ = n.Conn.Close()
	}
}

// come gives a new connection a place, or has it wait for one.
func (g *gate) come(c net.Conn) {
	n := &guest{Conn: c, gate: g, address: addressOf(c)}
	g.mu.Lock()
	defer g.unlock()
	if g.closed {
		g.end(n)
		return
	}
	g.waiting.add(n.address, n)
	if !g.isFree() {
		g.makeWay(n.address, true)
	}
	g.fill(n.address)
	if g.waiting.all > g.bounds.Waiting {
		g.refuse(g.waiting.largest().newest(), "connections")
	}
	if g.waiting.all > 0 && g.later == nil {
		g.later = time.AfterFunc(g.bounds.Hurry/8, g.look)
	}
}

// look ends those that have waited for too long, and strangers that have had their time while others wait.
func (g *gate) look() {
	g.mu.Lock()
	defer g.unlock()
	g.later = nil
	for _, crowd := range g.waiting.by {
		for crowd.Len() > 0 && time.Since(crowd.oldest().since) > g.bounds.Slow {
			g.refuse(crowd.oldest(), "connections")
		}
	}
	for g.waiting.all > 0 {
		address := g.makeWay(g.waiting.largest().owner, false)
		if address == "" {
			break
		}
		g.fill(address)
	}
	if g.waiting.all > 0 {
		g.later = time.AfterFunc(g.bounds.Hurry/8, g.look)
	}
}

func (g *gate) isFree() bool {
	return g.all < g.bounds.Connections && g.strangers.all < g.bounds.Strangers
}

// makeWay ends a connection for one of an address that waits, and returns the address of what it ended; empty: none has to go. Only for one
// that has just come it ends a stranger that has not had its time: connections that wait would else take places from each other without end.
func (g *gate) makeWay(address string, hasCome bool) string {
	var old *guest
	var reason string
	most := g.strangers.largest()
	if most != nil && time.Since(most.oldest().since) > g.bounds.Hurry {
		old, reason = most.oldest(), "slow_strangers"
	} else if g.strangers.all < g.bounds.Strangers {
		old, reason = g.longestIdle(), "idle_connections"
	}
	if old == nil && hasCome && most != nil && most.Len() > g.strangers.of(address) {
		old, reason = most.oldest(), "strangers"
	}
	if old == nil {
		return ""
	}
	g.refuse(old, reason)
	return old.address
}

// fill gives places that are free to connections that wait: first to those of an address, which so waits for itself alone.
func (g *gate) fill(address string) {
	for g.waiting.all > 0 && g.isFree() {
		crowd := g.waiting.by[address]
		if crowd == nil {
			crowd = g.waiting.largest()
		}
		n := crowd.oldest()
		g.waiting.remove(n)
		g.strangers.add(n.address, n)
		n.placed = true
		g.all++
		openConnections.Add(1)
		g.ready = append(g.ready, n)
		g.changed.Broadcast()
	}
}

// refuse ends a connection for a reason that is counted.
func (g *gate) refuse(n *guest, reason string) {
	refused(reason)
	g.end(n)
}

// end forgets a connection, and has unlock close it.
func (g *gate) end(n *guest) {
	g.forget(n)
	g.out = append(g.out, n)
}

func (g *gate) forget(n *guest) {
	if n.gone {
		return
	}
	n.gone = true
	g.leave(n)
	if n.placed {
		g.all--
		openConnections.Add(-1)
	}
}

// leave takes a connection from those it is counted with.
func (g *gate) leave(n *guest) {
	if n.caller != "" {
		if g.callers[n.caller]--; g.callers[n.caller] == 0 {
			delete(g.callers, n.caller)
		}
	}
	switch {
	case n.crowd == nil:
	case !n.placed:
		g.waiting.remove(n)
	case n.caller == "":
		g.strangers.remove(n)
	default:
		g.resting.remove(n)
	}
}

// belongs notes whose a connection is. It says no where the caller has too many of which none is idle; else the one that is idle for longest goes.
func (n *guest) belongs(caller string) bool {
	g := n.gate
	g.mu.Lock()
	defer g.unlock()
	if n.gone || n.caller == caller {
		return true
	}
	if g.callers[caller] >= g.bounds.OfCaller {
		idle := g.longestIdleOf(g.resting.by[caller])
		if idle == nil {
			return false
		}
		g.refuse(idle, "idle_connections")
	}
	g.leave(n)
	n.caller = caller
	g.callers[caller]++
	g.resting.add(caller, n)
	g.fill(n.address)
	return true
}

// started is from when connections count how long they rest.
var started = time.Now()

// rests notes whether a call is under way.
func (n *guest) rests(idle bool) {
	if !idle {
		n.idle.Store(0)
		return
	}
	n.idle.Store(int64(time.Since(started)))
	if !n.aside.Load() {
		return
	}
	g := n.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if n.aside.Store(false); !n.gone && n.crowd == nil {
		g.resting.add(n.caller, n)
	}
}

// longestIdle is the connection that has rested for longest, of the known caller that has most connections that rest; nil: none rests.
func (g *gate) longestIdle() *guest {
	for them := g.resting.largest(); them != nil; them = g.resting.largest() {
		all := them.Len()
		if n := g.longestIdleOf(them); them.Len() == all {
			return n
		}
	}
	return nil
}

// longestIdleOf is that of one caller's, nil where none rests. Those with a call under way leave the crowd until that is over. A crowd is
// small: see OfCaller.
func (g *gate) longestIdleOf(them *crowd) (longest *guest) {
	if them == nil {
		return nil
	}
	var first int64
	for e := them.Front(); e != nil; {
		n := e.Value.(*guest)
		e = e.Next()
		since := n.idle.Load()
		if since == 0 {
			n.aside.Store(true) // a call that ends from here on sees that
			if since = n.idle.Load(); since == 0 {
				g.resting.remove(n)
				continue
			}
			n.aside.Store(false)
		}
		if longest == nil || since < first {
			longest, first = n, since
		}
	}
	return longest
}

// Close implements net.Conn.
func (n *guest) Close() error {
	n.gate.mu.Lock()
	n.gate.forget(n)
	n.gate.fill(n.address)
	n.gate.unlock()
	return n.Conn.Close()
}

// maxIntroduction is how many bytes a stranger may send before it has sent the headers of a call: its part of a TLS handshake is kept whole.
const maxIntroduction = 32 << 10

// Read implements net.Conn.
func (n *guest) Read(into []byte) (int, error) {
	if n.begun.Load() {
		return n.Conn.Read(into)
	}
	return n.readIntroduction(into)
}

func (n *guest) readIntroduction(into []byte) (int, error) {
	if n.heard > maxIntroduction {
		refused("long_introductions")
		return 0, errLongIntroduction
	}
	count, err := n.Conn.Read(into)
	n.heard += count
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		refused("slow_introductions")
	}
	return count, err
}

var errLongIntroduction = fmt.Errorf("more than %d bytes came before the headers of a call ended", maxIntroduction)

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

// follow has the gate know which connections rest.
func follow(s *http.Server) {
	before := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if n := guestOf(c); n != nil {
			switch state {
			case http.StateActive, http.StateHijacked:
				n.begun.Store(true)
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
