package session

import (
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/internal/fairshare"
)

// Bounds on what is kept of what a broker says: a number of reservations, and an estimate of their memory in
// bytes, which is 8 KiB for an ordinary one. Without them a seller's connector could fill the agent's memory.
// A broker speaks of all reservations of this cluster, the connector of a seller of those with that seller.
const (
	maxOfBroker, maxOfBrokerBytes       = 20_000, 160 << 20
	maxOfConnector, maxOfConnectorBytes = 1_000, 10 << 20
)

// Bounds on what is kept of all brokers together, and of all connectors: parts of the memory that Go may take, and
// at most so many bytes.
const (
	partOfBrokers, maxOfBrokersBytes       = 6, 320 << 20
	partOfConnectors, maxOfConnectorsBytes = 12, 160 << 20
)

// Memory is what sessions keep together.
type Memory struct {
	brokers, connectors fairshare.Bound

	mu       sync.Mutex // guards also what each session keeps
	sessions []*Session // those that kept something
}

// NewMemory returns an empty Memory. limit is how many bytes Go may take.
func NewMemory(limit int64) *Memory {
	return &Memory{
		brokers:    fairshare.NewBound(maxOfBrokerBytes, maxOfBrokersBytes, limit, partOfBrokers),
		connectors: fairshare.NewBound(maxOfConnectorBytes, maxOfConnectorsBytes, limit, partOfConnectors),
	}
}

// admit reports whether a session may keep another reservation, of so many bytes. Sessions that take more than an
// equal share give way. The lock is held.
func (m *Memory) admit(s *Session, size int) bool {
	bound, most := m.connectors, maxOfConnector
	if IsBroker(s.Via) {
		bound, most = m.brokers, maxOfBroker
	}
	if s.open.Err() != nil || len(s.shown) >= most {
		return false
	}
	if !slices.Contains(m.sessions, s) {
		m.sessions = append(m.sessions, s)
	}
	var all []*Session
	for _, other := range m.sessions {
		if IsBroker(other.Via) == IsBroker(s.Via) {
			all = append(all, other)
		}
	}
	return fairshare.Admit(bound, s, size, all)
}

// leave notes that a session keeps nothing from now on. The lock is held.
func (m *Memory) leave(s *Session) {
	m.sessions = slices.DeleteFunc(m.sessions, func(session *Session) bool { return session == s })
}

// Size returns how many bytes the session keeps. The lock is held.
func (s *Session) Size() int { return s.bytes }

// Shrink drops reservations until Size is at most so many bytes. The lock is held.
func (s *Session) Shrink(most int) {
	for id := range s.shown {
		if s.bytes <= most {
			return
		}
		s.drop(id)
		s.countAsDropped()
	}
}
