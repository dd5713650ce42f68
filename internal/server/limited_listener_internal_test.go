package server

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// testConn is a connection from an address. It records that it was closed.
type testConn struct {
	net.Conn
	from   string
	closed chan struct{}
}

func (k *testConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(k.from), Port: 1} }

func (k *testConn) Close() error {
	select {
	case <-k.closed:
	default:
		close(k.closed)
	}
	return nil
}

// testListener returns the connections that a test sends.
type testListener chan *testConn

func (s testListener) Addr() net.Addr { return &net.TCPAddr{} }
func (s testListener) Close() error   { close(s); return nil }

func (s testListener) Accept() (net.Conn, error) {
	if k, open := <-s; open {
		return k, nil
	}
	return nil, net.ErrClosed
}

// limitedTest is a listener under test.
type limitedTest struct {
	*limitedListener
	t *testing.T
}

func newLimitedTest(t *testing.T, b Bounds) *limitedTest {
	s := make(testListener)
	g := newLimitedListener(s, b)
	t.Cleanup(func() { _ = g.Close() })
	return &limitedTest{g, t}
}

// connect makes one more connection from an address.
func (x *limitedTest) connect(from string) *testConn {
	k := &testConn{from: from, closed: make(chan struct{})}
	x.limitedListener.admit(k)
	return k
}

// place makes a connection that must get a place at once.
func (x *limitedTest) place(from string) (*testConn, *limitedConn) {
	x.t.Helper()
	k := x.connect(from)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.ready {
		if n.Conn == net.Conn(k) && !n.gone {
			return k, n
		}
	}
	x.t.Fatalf("a connection from %s gets no place", from)
	return nil, nil
}

func isClosed(k *testConn) bool {
	select {
	case <-k.closed:
		return true
	default:
		return false
	}
}

// The oldest connection of the largest address ends, not an older one of a small address.
func TestLargestAddressLosesItsOldest(t *testing.T) {
	// no connection, or each, has had its Introduction
	for _, introduction := range []time.Duration{time.Minute, time.Nanosecond} {
		x := newLimitedTest(t, Bounds{Connections: 100, Unidentified: 6, Introduction: introduction})
		small, _ := x.place("192.0.2.1")
		first, _ := x.place("192.0.2.2")
		for range 3 {
			x.place("192.0.2.2")
		}
		other, _ := x.place("192.0.2.3")
		x.place("192.0.2.4")
		if !isClosed(first) || isClosed(small) || isClosed(other) {
			t.Errorf(
				"%s: closed: of the largest address %v, of small ones %v, %v",
				introduction,
				isClosed(first),
				isClosed(small),
				isClosed(other),
			)
		}
	}
}

// A new connection of the largest address waits, and gets the next place that its address frees.
func TestAddressWaitsForItself(t *testing.T) {
	x := newLimitedTest(t, Bounds{Connections: 100, Unidentified: 4, Waiting: 3, Introduction: time.Minute})
	_, a := x.place("192.0.2.1")
	x.place("192.0.2.1")
	_, b := x.place("192.0.2.2")
	x.place("192.0.2.2")
	var ones, twos []*testConn
	for range 2 {
		ones = append(ones, x.connect("192.0.2.1"))
	}
	twos = append(twos, x.connect("192.0.2.2"))
	placed := func(k *testConn) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, n := range x.ready {
			if n.Conn == net.Conn(k) {
				return true
			}
		}
		return false
	}
	if !b.setCaller("rome") || !placed(twos[0]) || placed(ones[0]) {
		t.Error("a place that one address freed went to another")
	}
	_ = a.Close()
	if !placed(ones[0]) || placed(ones[1]) {
		t.Error("the place did not go to the connection that waited longest")
	}
	for range 2 {
		x.connect("192.0.2.1")
	}
	late, other := x.connect("192.0.2.1"), x.connect("192.0.2.2")
	if !isClosed(late) || isClosed(other) || isClosed(ones[1]) || x.waiting.total != 3 {
		t.Errorf("closed: the newest of the largest address %v, of another %v, the first %v; %d wait",
			isClosed(late), isClosed(other), isClosed(ones[1]), x.waiting.total)
	}
}

// If known callers have all places, the longest idle connection of the caller with the most of them ends.
func TestIdleConnectionEnds(t *testing.T) {
	x := newLimitedTest(t, Bounds{Connections: 6, Unidentified: 3, Introduction: time.Minute})
	known := func(caller string, idle bool) *testConn {
		k, n := x.place("192.0.2.1")
		n.setIdle(false)
		n.setCaller(caller)
		n.setIdle(idle)
		return k
	}
	one := known("rome", true)
	busy := known("milan", false)
	two, three := known("milan", true), known("milan", true)
	known("oslo", false)
	known("oslo", false)
	x.place("192.0.2.9")
	if !isClosed(two) || isClosed(one) || isClosed(busy) || isClosed(three) {
		t.Errorf("closed: of rome %v; of milan the busy one %v, the idle ones %v, %v",
			isClosed(one), isClosed(busy), isClosed(two), isClosed(three))
	}
	x.place("192.0.2.9")
	if isClosed(three) == isClosed(one) || isClosed(busy) {
		t.Error("not exactly one more idle connection is closed")
	}
}

// A connection that the listener skipped because it was busy can end once it is idle.
func TestBusyConnectionBecomesIdle(t *testing.T) {
	x := newLimitedTest(t, Bounds{Connections: 2, Unidentified: 1, Introduction: time.Minute, PerCaller: 1})
	k, n := x.place("192.0.2.1")
	n.setCaller("rome")
	if _, other := x.place("192.0.2.1"); other.setCaller("rome") {
		t.Fatal("a caller whose only connection is busy got another")
	}
	n.setIdle(true)
	n.setIdle(false)
	n.setIdle(true)
	_, other := x.place("192.0.2.2")
	if !other.setCaller("rome") || !isClosed(k) {
		t.Errorf("the idle connection is closed: %v", isClosed(k))
	}
	if x.idle.total != 0 || x.callers["rome"] != 1 {
		t.Errorf("%d connections are idle, rome has %d", x.idle.total, x.callers["rome"])
	}
}

// A connection that waits too long ends. One that is unidentified too long ends if another waits.
func TestWaitingEnds(t *testing.T) {
	x := newLimitedTest(t, Bounds{Connections: 3, Unidentified: 2, Introduction: 8 * time.Millisecond})
	first, _ := x.place("192.0.2.1")
	x.place("192.0.2.1")
	x.connect("192.0.2.1")
	<-first.closed
	y := newLimitedTest(
		t,
		Bounds{Connections: 1, Unidentified: 1, Introduction: 8 * time.Millisecond, Stall: 20 * time.Millisecond},
	)
	_, n := y.place("192.0.2.1")
	n.setCaller("rome")
	<-y.connect("192.0.2.1").closed
}

// The cost of accepting a connection does not depend on their number.
func BenchmarkFlood(b *testing.B) {
	for _, n := range []int{1 << 8, 1 << 13} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newLimitedListener(
				make(testListener),
				Bounds{Connections: 4 * n, Unidentified: n, Introduction: time.Nanosecond},
			)
			for i := range b.N {
				g.admit(
					&testConn{
						from:   fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255),
						closed: make(chan struct{}),
					},
				)
				g.ready = nil
			}
		})
	}
}
