package session

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// Switch is an http.RoundTripper that passes the calls to one broker on while it is on. While it is off, the
// broker is like one that cannot be reached. An admin switches it off with `bourse brokers disable`. A nil
// Switch is always on.
type Switch struct {
	broker string
	next   http.RoundTripper

	mu   sync.Mutex
	on   context.Context // ends the calls that are under way; nil: the switch is off
	stop context.CancelFunc
}

// NewSwitch returns a switch that is on, for the broker of a name.
func NewSwitch(broker string, next http.RoundTripper) *Switch {
	s := &Switch{broker: broker, next: next}
	s.Set(true)
	return s
}

// NoBroker returns a switch that stays off, for a cluster without a broker.
func NoBroker() *Switch { return &Switch{} }

// IsNone reports whether there is no broker to switch on.
func (s *Switch) IsNone() bool { return s != nil && s.broker == "" }

// Set switches it on or off, and reports whether that is a change. Switching off ends all calls that are
// under way.
func (s *Switch) Set(on bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.IsNone():
		return false
	case on && s.on == nil:
		s.on, s.stop = context.WithCancel(context.Background())
	case !on && s.on != nil:
		s.stop()
		s.on = nil
	default:
		return false
	}
	return true
}

// IsOff reports whether it is off.
func (s *Switch) IsOff() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on == nil
}

// CheckOn returns an error while it is off. Errors: Unavailable.
func (s *Switch) CheckOn() error {
	if s.IsOff() {
		return s.refusal()
	}
	return nil
}

func (s *Switch) refusal() error {
	if s.IsNone() {
		return api.Errorf(api.CodeUnavailable, "this cluster has no broker").
			Fix("join one (bourse brokers add NAME --join TOKEN), or buy by name: bourse buy SELLER/OFFER/PLAN")
	}
	return api.Errorf(api.CodeUnavailable, "broker %s is disabled here", s.broker).
		FixBy("", "bourse", "brokers", "enable", s.broker)
}

// RoundTrip implements http.RoundTripper.
func (s *Switch) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	on := s.on
	s.mu.Unlock()
	if on == nil {
		return nil, s.refusal()
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(on, cancel)
	release := sync.OnceFunc(func() { stop(); cancel() })
	answer, err := s.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		release()
		return nil, err
	}
	answer.Body = body{answer.Body, release}
	return answer, nil
}

// body is the body of an answer, whose call ends when it is closed.
type body struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// CloseIdleConnections implements the interface that http.Client looks for.
func (s *Switch) CloseIdleConnections() {
	if c, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
