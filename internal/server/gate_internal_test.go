package server

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// knock is a connection from an address, which remembers whether it was closed.
type knock struct {
	net.Conn
	from   string
	closed chan struct{}
}

func (k *knock) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(k.from), Port: 1} }

func (k *knock) Close() error {
	select {
	case <-k.closed:
	default:
		close(k.closed)
	}
	return nil
}

// street is a listener to which a test brings connections.
type street chan *knock

func (s street) Addr() net.Addr { return &net.TCPAddr{} }
func (s street) Close() error   { close(s); return nil }

func (s street) Accept() (net.Conn, error) {
	if k, open := <-s; open {
		return k, nil
	}
	return nil, net.ErrClosed
}

// town is a gate and what comes to it.
type town struct {
	*gate
	t *testing.T
}

func newTown(t *testing.T, b Bounds) *town {
	s := make(street)
	g := newGate(s, b)
	t.Cleanup(func() { _ = g.Close() })
	return &town{g, t}
}

// come has one more connection come from an address.
func (x *town) come(from string) *knock {
	k := &knock{from: from, closed: make(chan struct{})}
	x.gate.come(k)
	return k
}

// enter has one come that gets a place at once.
func (x *town) enter(from string) (*knock, *guest) {
	x.t.Helper()
	k := x.come(from)
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

func isClosed(k *knock) bool {
	select {
	case <-k.closed:
		return true
	default:
		return false
	}
}

// Who gives way is the oldest of the address that has most, not one of a small address that has been there for longer.
func TestWhoGivesWay(t *testing.T) {
	for _, hurry := range []time.Duration{time.Minute, time.Nanosecond} { // none, or all have had their time
		x := newTown(t, Bounds{Connections: 100, Strangers: 6, Hurry: hurry})
		small, _ := x.enter("192.0.2.1")
		first, _ := x.enter("192.0.2.2")
		for range 3 {
			x.enter("192.0.2.2")
		}
		other, _ := x.enter("192.0.2.3")
		x.enter("192.0.2.4")
		if !isClosed(first) || isClosed(small) || isClosed(other) {
			t.Errorf("%s: closed are of the largest address %v, of small ones %v, %v", hurry, isClosed(first), isClosed(small), isClosed(other))
		}
	}
}

// A new connection of the address that has most waits, and then gets the next place that one of its address leaves.
func TestAnAddressWaitsForItself(t *testing.T) {
	x := newTown(t, Bounds{Connections: 100, Strangers: 4, Waiting: 3, Hurry: time.Minute})
	_, a := x.enter("192.0.2.1")
	x.enter("192.0.2.1")
	_, b := x.enter("192.0.2.2")
	x.enter("192.0.2.2")
	var ones, twos []*knock
	for range 2 {
		ones = append(ones, x.come("192.0.2.1"))
	}
	twos = append(twos, x.come("192.0.2.2"))
	placed := func(k *knock) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, n := range x.ready {
			if n.Conn == net.Conn(k) {
				return true
			}
		}
		return false
	}
	if !b.belongs("rome") || !placed(twos[0]) || placed(ones[0]) {
		t.Error("the place that an address leaves goes to another")
	}
	_ = a.Close()
	if !placed(ones[0]) || placed(ones[1]) {
		t.Error("not the one that has waited for longest gets the place")
	}
	for range 2 {
		x.come("192.0.2.1")
	}
	late, other := x.come("192.0.2.1"), x.come("192.0.2.2")
	if !isClosed(late) || isClosed(other) || isClosed(ones[1]) || x.waiting.all != 3 {
		t.Errorf("of those that are too many: the last of the address that has most is closed %v, another's %v, the first %v; %d wait", isClosed(late), isClosed(other), isClosed(ones[1]), x.waiting.all)
	}
}

// Where known callers have all places, the connection goes that rests for longest, of the caller that has most of those.
func TestWhatRestsGivesWay(t *testing.T) {
	x := newTown(t, Bounds{Connections: 6, Strangers: 3, Hurry: time.Minute})
	known := func(caller string, rests bool) *knock {
		k, n := x.enter("192.0.2.1")
		n.rests(false)
		n.belongs(caller)
		n.rests(rests)
		return k
	}
	one := known("rome", true)
	busy := known("milan", false)
	two, three := known("milan", true), known("milan", true)
	known("oslo", false)
	known("oslo", false)
	x.enter("192.0.2.9")
	if !isClosed(two) || isClosed(one) || isClosed(busy) || isClosed(three) {
		t.Errorf("closed: rome's %v; of milan the one in use %v, those that rest %v, %v", isClosed(one), isClosed(busy), isClosed(two), isClosed(three))
	}
	x.enter("192.0.2.9")
	if isClosed(three) == isClosed(one) || isClosed(busy) {
		t.Error("not one more that rests is closed")
	}
}

// A connection that was looked at while a call was under way rests again after that, and then it can give way.
func TestABusyConnectionRestsAgain(t *testing.T) {
	x := newTown(t, Bounds{Connections: 2, Strangers: 1, Hurry: time.Minute, OfCaller: 1})
	k, n := x.enter("192.0.2.1")
	n.belongs("rome")
	if _, other := x.enter("192.0.2.1"); other.belongs("rome") {
		t.Fatal("a caller whose only connection is busy has another")
	}
	n.rests(true)
	n.rests(false)
	n.rests(true)
	_, other := x.enter("192.0.2.2")
	if !other.belongs("rome") || !isClosed(k) {
		t.Errorf("the connection that rests again is closed: %v", isClosed(k))
	}
	if x.resting.all != 1 || x.callers["rome"] != 1 {
		t.Errorf("%d rest, rome has %d", x.resting.all, x.callers["rome"])
	}
}

// Who waits for too long is closed, and who has a place for too long gives way to who waits.
func TestWaitingEnds(t *testing.T) {
	x := newTown(t, Bounds{Connections: 3, Strangers: 2, Hurry: 8 * time.Millisecond})
	first, _ := x.enter("192.0.2.1")
	x.enter("192.0.2.1")
	x.come("192.0.2.1")
	<-first.closed
	y := newTown(t, Bounds{Connections: 1, Strangers: 1, Hurry: 8 * time.Millisecond, Slow: 20 * time.Millisecond})
	_, n := y.enter("192.0.2.1")
	n.belongs("rome")
	<-y.come("192.0.2.1").closed
}

// To accept a connection costs about the same however many there are.
func BenchmarkFlood(b *testing.B) {
	for _, n := range []int{1 << 8, 1 << 13} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newGate(make(street), Bounds{Connections: 4 * n, Strangers: n, Hurry: time.Nanosecond})
			for i := range b.N {
				g.come(&knock{from: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), closed: make(chan struct{})})
				g.ready = nil
			}
		})
	}
}
