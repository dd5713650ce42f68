package server

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// Caller is who makes a call. The zero Caller has no certificate: it may only join.
type Caller struct {
	Role tlsid.Role
	// Name is the cluster ID of a member, the name of an operator.
	Name string
	// Until is when its certificate ends; zero: never.
	Until time.Time
}

// String names the caller in errors and logs.
func (c Caller) String() string {
	if c.Role == "" {
		return "a caller without certificate"
	}
	return string(c.Role) + " " + c.Name
}

type callerKey struct{}

// CallerOf returns who makes the call.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type connectionKey struct{}

// connection remembers whose it is: its certificate is read once.
type connection struct {
	caller atomic.Pointer[Caller]
	lines  *lines
}

// connectionOf is that of a call, nil where the listener is not one of [Serve].
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

func (s *Server) byCertificate(r *http.Request) (Caller, error) {
	conn := connectionOf(r.Context())
	if conn == nil {
		return s.readCertificate(r)
	}
	if known := conn.caller.Load(); known != nil && s.Authority.Now().Before(known.Until) {
		return *known, nil
	}
	c, err := s.readCertificate(r)
	if err == nil && c.Role != "" {
		conn.caller.Store(&c)
	}
	return c, err
}

func (s *Server) readCertificate(r *http.Request) (Caller, error) {
	peer, err := s.Authority.Peer(r.TLS)
	if errors.Is(err, tlsid.ErrNoCertificate) {
		return Caller{}, nil
	}
	if err != nil {
		return Caller{}, api.Errorf(api.CodeUnauthenticated, "%s", err).Fix("join the federation anew: bourse agent --join TOKEN")
	}
	return Caller{peer.Role, peer.Name, r.TLS.PeerCertificates[0].NotAfter}, nil
}

// identified puts who calls into the context, and bounds how much one caller may ask.
func (s *Server) identified(who func(*http.Request) (Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.Log.Error("a call panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				Refuse(w, api.Errorf(api.CodeInternal, "this is a bug; the broker's log says more"))
			}
		}()
		c, err := who(r)
		switch {
		case err != nil:
			Refuse(w, err)
			return
		case c.Role == "" && !s.open[r.URL.Path]:
			Refuse(w, api.Errorf(api.CodeUnauthenticated, "the call has no client certificate").
				Fix("join the federation: bourse agent --join TOKEN"))
			return
		case !s.limits.allow(c, r):
			w.Header().Set("Retry-After", "1")
			Refuse(w, api.Errorf(api.CodeTooManyRequests, "%s calls too often", c).Fix("call less often: the broker allows each member %g calls a second", s.Rate))
			return
		}
		s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}
