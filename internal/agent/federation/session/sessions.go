package session

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Sessions are those that are open. The zero value has none.
type Sessions struct {
	mu      sync.Mutex
	all     []*Session
	added   chan struct{} // closed when one is added; nil: nobody waits
	onHeard func()        // nil: nobody listens

	memory *Memory // nil: nobody asked for it
}

// Memory returns what the sessions with other parties share.
func (s *Sessions) Memory() *Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		s.memory = NewMemory(debug.SetMemoryLimit(-1))
	}
	return s.memory
}

// Add adds a session. From now on it is used, and a Watcher watches it.
func (s *Sessions) Add(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, session)
	if s.added != nil {
		close(s.added)
		s.added = nil
	}
}

// Remove removes a session, and ends its watch. It cannot be added again.
func (s *Sessions) Remove(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(x *Session) bool { return x == session })
	session.end()
}

// Open returns all, in the order in which they were added.
func (s *Sessions) Open() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// openUntilAdd returns all, and a channel that is closed when another is added.
func (s *Sessions) openUntilAdd() ([]*Session, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.added == nil {
		s.added = make(chan struct{})
	}
	return slices.Clone(s.all), s.added
}

// Brokers returns those with enabled brokers that this cluster joined, in the order in which they are asked.
func (s *Sessions) Brokers() (out []*Session) {
	for _, session := range s.Open() {
		if IsBroker(session.Via) && !session.Switch.IsOff() {
			out = append(out, session)
		}
	}
	slices.SortStableFunc(out, func(a, b *Session) int { return strings.Compare(a.Via, b.Via) })
	return out
}

// Outlets returns where this cluster sells: its own connector, if it has one, and the enabled
// brokers that it joined.
func (s *Sessions) Outlets() (out []transport.Outlet) {
	for _, session := range s.Open() {
		if session.Lends && !session.Switch.IsOff() {
			out = append(out, transport.Outlet{
				Broker: session.Broker, Via: session.Via, Knows: session.Knows, Answers: &session.answers,
			})
		}
	}
	return out
}

// FirstBroker returns the one that is asked first: the first that is not lost, or else the first. It is nil
// where all are disabled.
func (s *Sessions) FirstBroker() (first *Session) {
	for _, session := range s.Brokers() {
		if !session.connection.IsLost(0) {
			return session
		}
		first = cmp.Or(first, session)
	}
	return first
}

// BrokerNamed returns the one with the broker of a name, nil if there is none.
func (s *Sessions) BrokerNamed(name string) *Session {
	for _, session := range s.Open() {
		if IsBroker(session.Via) && session.Name() == name {
			return session
		}
	}
	return nil
}

// AllLost reports whether no broker has answered for so long.
func (s *Sessions) AllLost(long time.Duration) bool {
	return !slices.ContainsFunc(s.Brokers(), func(session *Session) bool { return !session.connection.IsLost(long) })
}

// Reached reports whether a broker answers.
func (s *Sessions) Reached() bool { return !s.AllLost(0) }

// Grown changes when a broker says that a cluster has more capacity than before.
func (s *Sessions) Grown() (sum int64) {
	for _, session := range s.Brokers() {
		sum += session.grown.Load()
	}
	return sum
}

// OnHeard sets what is called each time that a broker says something, or is lost. It must not block.
func (s *Sessions) OnHeard(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onHeard = do
}

func (s *Sessions) callHeard() {
	s.mu.Lock()
	do := s.onHeard
	s.mu.Unlock()
	if do != nil {
		do()
	}
}

// HasNoBroker reports whether the agent was started without a broker, and joined none.
func (s *Sessions) HasNoBroker() bool {
	main := s.BrokerNamed(api.MainBroker)
	return main != nil && main.Switch.IsNone() && len(s.Brokers()) == 0
}

// IsLost reports whether the broker of a Via is disabled, removed, or has not answered for so long.
func (s *Sessions) IsLost(via string, long time.Duration) bool {
	return !slices.ContainsFunc(s.Brokers(),
		func(session *Session) bool { return session.Via == via && !session.connection.IsLost(long) })
}

// IsForgotten reports whether the broker where a reservation was made does not know it.
func (s *Sessions) IsForgotten(record *market.Reservation) bool {
	return slices.ContainsFunc(s.Open(), func(session *Session) bool {
		return session.Via == record.Via && session.lacks(record.ID)
	})
}
