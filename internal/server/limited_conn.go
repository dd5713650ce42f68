package server

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// limitedConn is one connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	address  string
	called   atomic.Bool // it has sent the headers of a call
	preamble int         // the number of bytes that came before that
	// certified is the caller by the certificate of the connection, once that was read.
	certified atomic.Pointer[Caller]
	// answerBy is until when the answer must have been read; nil: it has as long as it is being read.
	answerBy atomic.Pointer[time.Time]

	// The listener's lock guards the rest.
	caller string // empty: unidentified
	placed bool
	gone   bool
	group  *connGroup // nil while it is identified and has an active call
	link   *list.Element
	since  time.Time // when it joined its group
}

// setCaller records the caller of a connection, during a call. If the caller has too many
// connections, the one that has been idle longest ends. It returns false if none is idle.
func (n *limitedConn) setCaller(caller string) bool {
	g := n.listener
	g.mu.Lock()
	defer g.unlock()
	if n.gone || n.caller == caller {
		return true
	}
	if g.callers[caller] >= g.bounds.PerCaller {
		idle := g.idle.byOwner[caller]
		if idle == nil {
			return false
		}
		g.refuse(idle.oldest(), "idle_connections")
	}
	g.uncount(n)
	n.caller = caller
	g.callers[caller]++
	g.placeWaiting(n.address)
	return true
}

// setIdle records whether no call is active.
func (n *limitedConn) setIdle(idle bool) {
	n.listener.mu.Lock()
	defer n.listener.mu.Unlock()
	if n.caller == "" || n.gone {
		return
	}
	n.leaveGroup()
	if idle {
		n.listener.idle.add(n.caller, n)
	}
}

// Close implements net.Conn.
func (n *limitedConn) Close() error {
	n.listener.mu.Lock()
	n.listener.forget(n)
	n.listener.placeWaiting(n.address)
	n.listener.unlock()
	return n.Conn.Close()
}

// maxPreamble bounds the bytes before the headers of the first call, because crypto/tls keeps a
// handshake in memory.
const maxPreamble = 32 << 10

// Read implements net.Conn.
func (n *limitedConn) Read(into []byte) (int, error) {
	if n.called.Load() {
		return n.Conn.Read(into)
	}
	return n.readPreamble(into)
}

func (n *limitedConn) readPreamble(into []byte) (int, error) {
	if n.preamble > maxPreamble {
		refused("long_preambles")
		return 0, errLongPreamble
	}
	count, err := n.Conn.Read(into)
	n.preamble += count
	if isTimeout(err) {
		refused("slow_preambles")
	}
	return count, err
}

var errLongPreamble = fmt.Errorf("more than %d bytes came before the headers of a call ended", maxPreamble)

// Write implements net.Conn. A peer that stops reading loses its connection. One that keeps reading has no time limit but
// Bounds.Answer.
func (n *limitedConn) Write(data []byte) (written int, err error) {
	for len(data) > 0 && err == nil {
		piece := data[:min(len(data), pieceSize)]
		until := time.Now().Add(n.listener.bounds.Stall)
		if by := n.answerBy.Load(); by != nil && by.Before(until) {
			until = *by
		}
		if err = n.SetWriteDeadline(until); err != nil {
			break
		}
		var m int
		m, err = n.Conn.Write(piece)
		written, data = written+m, data[m:]
	}
	if isTimeout(err) {
		refused("slow_readers")
	}
	return written, err
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// addressOf returns the key for counting the peer of a connection, as [network] does.
func addressOf(c net.Conn) string {
	if address := network(c.RemoteAddr().String()); address != "" {
		return address
	}
	return c.RemoteAddr().Network()
}

// limitedConnOf returns the limitedConn below a connection of a server of [newServer].
func limitedConnOf(c net.Conn) *limitedConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	return c.(*limitedConn)
}

type connKey struct{}

// withConn puts the connection into the context of its calls, for http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, limitedConnOf(c))
}

// connOf returns the connection of a call; nil if its listener is not one of [Serve].
func connOf(ctx context.Context) *limitedConn {
	n, _ := ctx.Value(connKey{}).(*limitedConn)
	return n
}

// setState records whether a connection is idle, for http.Server.ConnState.
func setState(c net.Conn, state http.ConnState) {
	n := limitedConnOf(c)
	switch state {
	case http.StateActive, http.StateHijacked:
		n.called.Store(true)
		n.setIdle(false)
	case http.StateIdle:
		n.setIdle(true)
	}
}
