package brokersession

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/market"
)

// Sessions are those that are open. The zero value has none.
type Sessions struct {
	mu  sync.Mutex
	all []*Session
}

// Add adds a session that was opened.
func (s *Sessions) Add(one *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// Remove removes a session that was closed.
func (s *Sessions) Remove(one *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(x *Session) bool { return x == one })
}

// Open returns all, in the order in which they were added.
func (s *Sessions) Open() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Brokers returns those with enabled brokers that this cluster joined, in the order in which they are asked.
func (s *Sessions) Brokers() (out []*Session) {
	for _, one := range s.Open() {
		if route.IsBroker(one.Via) && !one.Switch.IsOff() {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b *Session) int { return strings.Compare(a.Via, b.Via) })
	return out
}

// FirstBroker returns the one that is asked first: the first that is not lost, or else the first. It is nil
// where all are disabled.
func (s *Sessions) FirstBroker() (first *Session) {
	for _, one := range s.Brokers() {
		if !one.connection.IsLost(0) {
			return one
		}
		first = cmp.Or(first, one)
	}
	return first
}

// BrokerNamed returns the one with the broker of a name, nil if there is none.
func (s *Sessions) BrokerNamed(name string) *Session {
	for _, one := range s.Open() {
		if route.IsBroker(one.Via) && one.Name() == name {
			return one
		}
	}
	return nil
}

// AllLost reports whether no broker has answered for so long.
func (s *Sessions) AllLost(long time.Duration) bool {
	return !slices.ContainsFunc(s.Brokers(), func(one *Session) bool { return !one.connection.IsLost(long) })
}

// IsLost reports whether the broker of a route is disabled, removed, or has not answered for so long.
func (s *Sessions) IsLost(via string, long time.Duration) bool {
	return !slices.ContainsFunc(s.Brokers(), func(one *Session) bool { return one.Via == via && !one.connection.IsLost(long) })
}

// IsForgotten reports whether the broker where a reservation was made does not know it.
func (s *Sessions) IsForgotten(ours *market.Reservation) bool {
	return slices.ContainsFunc(s.Open(), func(one *Session) bool { return one.isForgotten(ours) })
}
