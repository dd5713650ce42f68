package server

import (
	"net"
	"slices"
	"sync"
	"time"
)

// limitedListener bounds its connections. A connection is unidentified until a call on it has shown its
// caller. If too many are unidentified, each address has a share: a new connection of another address
// takes the place of the oldest one of the address with the most. Only new connections of that address
// itself wait, without delaying the loop that accepts.
type limitedListener struct {
	net.Listener
	bounds  Bounds
	receive sync.Once // starts receiveAll

	mu           sync.Mutex
	changed      sync.Cond      // of ready, failure and closed
	ready        []*limitedConn // have a place; Accept has not returned them yet
	failure      error          // of the listener, until Accept returns it
	closed       bool
	placed       int            // the number of connections with a place
	callers      map[string]int // the number of connections of each known caller
	unidentified *connGroups    // the others, by address
	idle         *connGroups    // those of known callers without an active call, by caller
	waiting      *connGroups    // connections without a place, by address
	nextCheck    *time.Timer    // runs check; nil: nothing waits
	closing      []*limitedConn // unlock closes them
}

func newLimitedListener(l net.Listener, b Bounds) *limitedListener {
	g := &limitedListener{Listener: l, bounds: b.orDefault(), callers: map[string]int{},
		unidentified: newConnGroups(), idle: newConnGroups(), waiting: newConnGroups()}
	g.changed.L = &g.mu
	return g
}

// Accept implements net.Listener. It returns connections that have a place.
func (g *limitedListener) Accept() (net.Conn, error) {
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

// receiveAll admits connections until the listener is closed. After an error of the inner listener it
// waits until Accept has returned that error.
func (g *limitedListener) receiveAll() {
	for {
		c, err := g.Listener.Accept()
		if err == nil {
			g.admit(c)
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

// Close implements net.Listener. It closes connections without any call, which clients open in
// advance. A server that shuts down would wait five seconds for each.
func (g *limitedListener) Close() error {
	g.mu.Lock()
	defer g.unlock()
	g.closed = true
	for _, n := range slices.Concat(g.waiting.all(), g.unidentified.all()) {
		if !n.called.Load() {
			g.end(n)
		}
	}
	g.ready = nil
	g.changed.Broadcast()
	return g.Listener.Close()
}

// unlock unlocks the listener, and then closes the ended connections.
func (g *limitedListener) unlock() {
	closing := g.closing
	g.closing = nil
	g.mu.Unlock()
	for _, n := range closing {
		_ = n.Conn.Close()
	}
}

// admit gives a new connection a place, or lets it wait for one.
func (g *limitedListener) admit(c net.Conn) {
	n := &limitedConn{Conn: c, listener: g, address: addressOf(c)}
	g.mu.Lock()
	defer g.unlock()
	if g.closed {
		g.end(n)
		return
	}
	g.waiting.add(n.address, n)
	if !g.hasPlace() {
		g.evictFor(n.address, true)
	}
	g.placeWaiting(n.address)
	if g.waiting.total > g.bounds.Waiting {
		g.refuse(g.waiting.largest().newest(), "connections")
	}
	g.scheduleCheck()
}

func (g *limitedListener) scheduleCheck() {
	if g.waiting.total > 0 && g.nextCheck == nil {
		g.nextCheck = time.AfterFunc(g.bounds.Introduction/8, g.check)
	}
}

// check ends connections that have waited too long, and connections that are unidentified too long while
// others wait.
func (g *limitedListener) check() {
	g.mu.Lock()
	defer g.unlock()
	g.nextCheck = nil
	for _, group := range g.waiting.byOwner {
		for group.Len() > 0 && time.Since(group.oldest().since) > g.bounds.Stall {
			g.refuse(group.oldest(), "connections")
		}
	}
	for g.waiting.total > 0 {
		address := g.evictFor(g.waiting.largest().owner, false)
		if address == "" {
			break
		}
		g.placeWaiting(address)
	}
	g.scheduleCheck()
}

func (g *limitedListener) hasPlace() bool {
	return g.placed < g.bounds.Connections && g.unidentified.total < g.bounds.Unidentified
}

// evictFor ends a connection in favor of a waiting address, and returns the address of the ended one, or
// "" if none must end. It ends an unidentified connection within its Introduction only for one that is
// new. Otherwise waiting connections would take places from each other without end.
func (g *limitedListener) evictFor(address string, isNew bool) string {
	var old *limitedConn
	var reason string
	most := g.unidentified.largest()
	if most != nil && time.Since(most.oldest().since) > g.bounds.Introduction {
		old, reason = most.oldest(), "slow_unidentified"
	} else if idle := g.idle.largest(); idle != nil && g.unidentified.total < g.bounds.Unidentified {
		old, reason = idle.oldest(), "idle_connections"
	}
	if old == nil && isNew && most != nil && most.Len() > g.unidentified.count(address) {
		old, reason = most.oldest(), "unidentified"
	}
	if old == nil {
		return ""
	}
	g.refuse(old, reason)
	return old.address
}

// placeWaiting gives free places to waiting connections: those of the given address first, so that an
// address waits only for itself.
func (g *limitedListener) placeWaiting(address string) {
	for g.waiting.total > 0 && g.hasPlace() {
		group := g.waiting.byOwner[address]
		if group == nil {
			group = g.waiting.largest()
		}
		n := group.oldest()
		n.leaveGroup()
		g.unidentified.add(n.address, n)
		n.placed = true
		g.placed++
		openConnections.Add(1)
		g.ready = append(g.ready, n)
		g.changed.Broadcast()
	}
}

// refuse ends a connection and counts the reason.
func (g *limitedListener) refuse(n *limitedConn, reason string) {
	refused(reason)
	g.end(n)
}

// end forgets a connection. unlock closes it.
func (g *limitedListener) end(n *limitedConn) {
	g.forget(n)
	g.closing = append(g.closing, n)
}

func (g *limitedListener) forget(n *limitedConn) {
	if n.gone {
		return
	}
	n.gone = true
	g.uncount(n)
	if n.placed {
		g.placed--
		openConnections.Add(-1)
	}
}

// uncount removes a connection from its caller's count and from its group.
func (g *limitedListener) uncount(n *limitedConn) {
	if n.caller != "" {
		if g.callers[n.caller]--; g.callers[n.caller] == 0 {
			delete(g.callers, n.caller)
		}
	}
	n.leaveGroup()
}
