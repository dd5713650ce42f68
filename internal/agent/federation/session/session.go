// Package session is how this cluster deals with one broker, and with several at once.
//
// A [Session] is open with each broker that the cluster joined, and with each connector of a cluster with
// which it deals directly. It holds what that broker says of reservations, within bounds, and whether its
// word counts for one: see [Session.Decides]. [Sessions] are those that are open; [Relay] makes a call at
// the one that it concerns. A [Watcher] watches the broker of each open session, and hands on what it says.
// An admin disables a broker with its [Switch].
//
// What a session holds is lost with it. What must not be forgotten is in the Ledger. There the field Via of
// a reservation names the session where it was made:
//
//	""             the main broker, with which the agent was started
//	"broker/NAME"  another broker that the cluster joined
//	"CLUSTER"      the connector of a cluster, without a broker
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Unheard counts what brokers and connectors said of reservations beyond what is kept.
var Unheard = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "bourse_agent_unheard_reservations_total",
	Help: "Reservations that a broker or connector sent beyond the kept number, or that do not concern this cluster.",
}, []string{"broker"})

// Options say with which broker a session is.
type Options struct {
	// Via names it, as in reservations: see the comment of this package.
	Via string
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	Broker  transport.Broker
	// Lends says that others borrow from this cluster there. It is false at the connector of a seller.
	Lends bool
	// Switch is how the admin disables the broker. Nil: it cannot be disabled.
	Switch *Switch
	// Greet shows this cluster's card, before each watch. Nil: something else does.
	Greet func(context.Context) error
	// Memory is what it shares with other sessions. Nil: it has its own.
	Memory *Memory
	// Clock is the machine's by default.
	Clock clock.Clock
}

// Session is with one broker or connector.
type Session struct {
	Options
	connection Connection
	answers    transport.Answers
	awake      chan struct{}   // the watch is to begin at once
	grown      atomic.Int64    // Grown of its last bookmark
	open       context.Context // ends when the session is removed
	close      context.CancelFunc

	// Memory.mu guards these.
	shown   map[string]*transport.Reservation // by ID
	sizes   map[string]int                    // of those, in bytes of memory
	bytes   int                               // the sum of sizes
	whole   bool                              // it has said all since it was last connected
	dropped int                               // how much of what it said is not kept, since it began to say all
}

// New returns a session that nothing watches yet.
func New(o Options) *Session {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Memory == nil {
		o.Memory = NewMemory(debug.SetMemoryLimit(-1))
	}
	open, end := context.WithCancel(context.Background())
	return &Session{
		Options: o, connection: Connection{clock: o.Clock}, awake: make(chan struct{}, 1), open: open, close: end,
		shown: map[string]*transport.Reservation{}, sizes: map[string]int{},
	}
}

// Connection returns what is known of the connection.
func (s *Session) Connection() *Connection { return &s.connection }

// Name returns the name of the broker.
func (s *Session) Name() string { return BrokerName(s.Via) }

// SetEnabled enables or disables the broker. An enabled one is watched at once.
func (s *Session) SetEnabled(enabled bool) {
	if s.Switch.Set(enabled) {
		s.Retry()
	}
}

// Retry ends the wait of a watch that failed: it begins again at once.
func (s *Session) Retry() {
	select {
	case s.awake <- struct{}{}:
	default:
	}
}

// IsConnected reports whether the watch is open.
func (s *Session) IsConnected() bool { return s.connection.State().Connected && !s.Switch.IsOff() }

// Shown returns what the broker says of a reservation, nil if nothing.
func (s *Session) Shown(id string) *transport.Reservation {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	return s.shown[id]
}

// AllShown returns what the broker says of all reservations, in no order.
func (s *Session) AllShown() []*transport.Reservation {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	return slices.Collect(maps.Values(s.shown))
}

// Record keeps what the broker says of a reservation, if that concerns this cluster and there is room. It
// reports whether it is kept.
func (s *Session) Record(r *transport.Reservation) (kept bool) { return s.record(r, false) }

// record is Record. With unlessShown, what the broker has shown of the reservation stays.
func (s *Session) record(r *transport.Reservation, unlessShown bool) (kept bool) {
	own := r.Payload.Consumer == s.Cluster || r.Payload.Provider == s.Cluster
	data, err := json.Marshal(r)
	memory := int(decoded.Cost(data))
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	if unlessShown && s.shown[r.ID] != nil {
		return false
	}
	s.drop(r.ID)
	if !own || err != nil || !s.Memory.admit(s, memory) {
		s.countAsDropped()
		return false
	}
	s.shown[r.ID], s.sizes[r.ID] = r, memory
	s.bytes += memory
	return true
}

// drop removes what the broker said of a reservation. The lock is held.
func (s *Session) drop(id string) {
	s.bytes -= s.sizes[id]
	delete(s.shown, id)
	delete(s.sizes, id)
}

// countAsDropped counts a reservation that is not kept. The lock is held.
func (s *Session) countAsDropped() {
	s.dropped++
	Unheard.WithLabelValues(cmp.Or(s.Via, api.MainBroker)).Inc()
}

// Forget removes what the broker said of a reservation that is over on both sides.
func (s *Session) Forget(id string) {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	s.drop(id)
}

// countDropped returns how much the broker said that was not kept.
func (s *Session) countDropped() int {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	return s.dropped
}

// beginWatch notes that a watch began. Where it is complete, what it does not show does not exist there.
func (s *Session) beginWatch(complete bool) {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	if s.whole = s.whole && !complete; complete {
		s.clear()
		s.dropped = 0
	}
}

// clear removes all that the broker said. The lock is held.
func (s *Session) clear() {
	clear(s.shown)
	clear(s.sizes)
	s.bytes = 0
}

// end ends the watch for good, and gives the memory back.
func (s *Session) end() {
	s.close()
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	s.clear()
	s.Memory.leave(s)
}

// endWatch notes that the watch ended: what it did not show may exist.
func (s *Session) endWatch() {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	s.whole = false
}

// completeWatch notes that the watch has shown all with which it begins, and reports whether that is news.
func (s *Session) completeWatch() (news bool) {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	news, s.whole = !s.whole, true
	return news
}

// lacks reports whether a reservation is not among all that the broker has said.
func (s *Session) lacks(id string) bool {
	s.Memory.mu.Lock()
	defer s.Memory.mu.Unlock()
	return s.whole && s.dropped == 0 && s.shown[id] == nil
}
