package peering

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Relay passes messages on, and shows reservations. Each open session is one, and so are all of
// them together.
type Relay interface {
	SendHandshake(ctx context.Context, cluster, document string) error
	Reservation(ctx context.Context, id string) (transport.Reservation, error)
}

// MessengerOptions say who sends, and through what.
type MessengerOptions struct {
	Cluster string
	// Key signs what is sent. Former are the fingerprints of its predecessors: a message for one of
	// them counts.
	Key    *clusterkey.Key
	Former []string
	// Market is that of the Ledger, which knows the pinned keys. Its clock decides whether a
	// message has expired.
	Market *exchange.Exchange
	Relay  Relay
	// Trust decides whether the key on a card is believed.
	Trust trust.Demand
	// Received is called when a peer has sent something new.
	Received func(peer string, role api.PeeringRole)
	Clock    clock.PassiveClock
	Log      *slog.Logger
}

// Messenger sends and receives the signed messages with which two clusters create a peering. It accepts a
// message only when the pinned key of its sender signed it, for this cluster. [Messenger.Newest] returns the
// newest message of a peer. [Messenger.Send] sends what has changed at once, and repeats the rest after a
// while. Package internal/liqo/peering makes the messages. Several goroutines may use a Messenger.
type Messenger struct {
	options MessengerOptions

	mu       sync.Mutex
	received map[string]*api.Handshake // the newest of each peering, by the peering's name
	sent     map[string]sent           // the last of each peering
}

// sent is the last message that was sent.
type sent struct {
	digest  string
	at      time.Time
	answers *api.Handshake // the message that it answered
}

// maxReceived is how many messages are kept before the expired ones are dropped.
const maxReceived = 1000

// NewMessenger returns a Messenger that has received nothing.
func NewMessenger(o MessengerOptions) *Messenger {
	return &Messenger{options: o, received: map[string]*api.Handshake{}, sent: map[string]sent{}}
}

// Receive takes in a message that a broker or a connector passes on. It logs and drops a message that it
// does not believe.
func (m *Messenger) Receive(ctx context.Context, document string) {
	h, role, err := m.verify(ctx, document)
	if err != nil && m.meetSender(ctx, document) {
		h, role, err = m.verify(ctx, document)
	}
	if err != nil {
		m.options.Log.Warn("a handshake message is not believed", "error", err)
		return
	}
	if m.keep(api.PeeringName(h.From, role), h) {
		m.options.Received(h.From, role)
	}
}

// keep remembers a message if it is newer than the last one, and reports whether it is. Times have whole
// seconds, and a handshake takes less: of two messages of one second the later one counts. A message that
// came by another session before is not newer.
func (m *Messenger) keep(name string, h *api.Handshake) (newer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.received[name]
	newer = last == nil || last.FromKey != h.FromKey ||
		!h.Expires.Before(&last.Expires) && !equality.Semantic.DeepEqual(last, h)
	if !newer {
		return false
	}
	if last == nil && len(m.received) >= maxReceived {
		maps.DeleteFunc(m.received, func(_ string, h *api.Handshake) bool { return m.expired(h) })
	}
	m.received[name] = h
	return true
}

func (m *Messenger) expired(h *api.Handshake) bool {
	return !m.options.Market.Now().Go().Before(h.Expires.Time)
}

// Newest returns the newest message of a peer that has not expired, nil if there is none. role is the peer's.
func (m *Messenger) Newest(peer string, role api.PeeringRole) *api.Handshake {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := api.PeeringName(peer, role)
	if h := m.received[name]; h != nil && !m.expired(h) {
		return h
	}
	delete(m.received, name)
	return nil
}

// Forget drops all messages of a peering that is over.
func (m *Messenger) Forget(peer string, role api.PeeringRole) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.received, api.PeeringName(peer, role))
	delete(m.sent, api.PeeringName(peer, role))
}
