package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

// Caller is the identity of a caller. The zero Caller has no certificate: it may only join.
type Caller struct {
	Role tlsid.Role
	// Name is the cluster ID of a member or the name of an operator.
	Name string
	// Until is the end of its certificate; zero: never.
	Until time.Time
	// Certificate is that of its connection; zero: the caller was identified in another way.
	Certificate market.Certificate
	// Still returns an error once an open connection no longer speaks for the caller. Nil: it always does.
	Still func() error
	// Address is where its call came from. [Server.Bounded] sets it.
	Address string
	// Scope is what a user of a cluster may see, who asks by a session. Nil: everything, and the caller may also act.
	Scope *Scope
}

// String names the caller in errors and logs.
func (c Caller) String() string {
	if c.Role == "" {
		return "a caller without certificate"
	}
	return string(c.Role) + " " + c.Name
}

type callerKey struct{}

// CallerOf returns the caller of a call.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// ByCertificate returns the caller by the certificate of its connection; the zero Caller without
// one. The certificate of a connection is read once. Errors: Unauthenticated, Suspended.
func (s *Server) ByCertificate(r *http.Request) (Caller, error) {
	conn := connOf(r.Context())
	if conn == nil {
		return s.ByState(r.TLS)
	}
	if known := conn.certified.Load(); known != nil && s.Authority.Now().Before(known.Until) {
		return *known, s.checkCertificate(*known)
	}
	c, err := s.ByState(r.TLS)
	if err == nil && c.Role != "" {
		conn.certified.Store(&c)
	}
	return c, err
}

// checkCertificate checks, also on open connections, that a caller's certificate has not ended
// early: by a newer one, or with the membership for which it was issued. Errors: Unauthenticated;
// Suspended if no certificate of the member is valid.
func (s *Server) checkCertificate(c Caller) error {
	switch {
	case c.Certificate.Key == "":
		return nil
	case c.Role == tlsid.RoleOperator && !s.Exchange.View().Operators.CertificateEnded(c.Certificate):
		return nil
	case c.Role == tlsid.RoleOperator:
		s.ended.Add(1)
		return api.Errorf(api.CodeUnauthenticated,
			"this operator's certificate has ended: the broker ended all that were issued before").
			Fix("make another on the broker's machine: bourse broker operator FOLDER")
	}
	l := s.Exchange.View().Listing(c.Name)
	switch {
	case l == nil || l.Member == nil || s.Exchange.Now() < l.Member.CertificateEnds(c.Certificate):
		return nil
	case l.Member.State == api.MemberRevoked || l.Member.State == api.MemberRemoved:
		return api.Errorf(api.CodeSuspended, "member %s is %s", c.Name, l.Member.State).Fix("ask the operator")
	}
	s.ended.Add(1)
	return api.Errorf(api.CodeUnauthenticated,
		"this certificate of %s has ended: it was issued before %s became a member, or there is a newer one", c.Name, c.Name).
		Fix("the agent renews it by itself; one of another CA must be issued again")
}

// EndedCertificates returns the number of calls with a certificate that had ended early.
func (s *Server) EndedCertificates() int64 { return s.ended.Load() }

// ByState returns the caller by the certificate of a TLS connection; the zero Caller without one.
// Errors: Unauthenticated, Suspended.
func (s *Server) ByState(state *tls.ConnectionState) (Caller, error) {
	peer, err := s.Authority.Peer(state)
	if errors.Is(err, tlsid.ErrNoCertificate) {
		return Caller{}, nil
	}
	if err != nil {
		return Caller{}, api.Errorf(api.CodeUnauthenticated, "%s", err).
			Fix("join the federation again: bourse agent --join TOKEN")
	}
	c := Caller{Role: peer.Role, Name: peer.Name, Until: state.PeerCertificates[0].NotAfter,
		Certificate: market.Certificate{
			Key: peer.Key.String(), Issued: market.At(peer.Issued), Ours: peer.Ours && peer.Role == tlsid.RoleCluster,
		}}
	c.Still = func() error { return s.checkCertificate(c) }
	return c, s.checkCertificate(c)
}

// identified serves the API to the callers that who identifies.
func (s *Server) identified(who func(*http.Request) (Caller, error)) http.Handler {
	return s.Bounded(func(r *http.Request) (Caller, error) {
		c, err := who(r)
		if err == nil && c.Role == "" && !s.open[r.URL.Path] {
			err = api.Errorf(api.CodeUnauthenticated, "the call has no client certificate").
				Fix("join the federation: bourse agent --join TOKEN")
		}
		if err == nil && c.Role == tlsid.RoleCluster && s.Exchange != nil { // an agent answers its users without one
			if l := s.Exchange.View().Listing(c.Name); l != nil && l.Member != nil {
				s.software.record(c.Name, r.UserAgent())
			}
		}
		return c, err
	}, Refuse, s.handler)
}

// Bounded puts the caller into the context for next, and bounds the calls and connections of one caller. It
// refuses what a page of another site sends (CheckOrigin).
// Every handler of a listener must be behind it. Calls that next makes to the API itself, in a context of
// [Within], count towards the caller's rate; for other bounds they are one with the call.
func (s *Server) Bounded(who func(*http.Request) (Caller, error),
	refuse func(http.ResponseWriter, *http.Request, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.Log.Error("a call panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				refuse(w, r, api.Errorf(api.CodeInternal, "this is a bug; the broker's log says more"))
			}
		}()
		c, active, err := s.begin(w, r, who)
		if err != nil {
			refuse(w, r, err)
			return
		}
		defer active.end()
		if err := CheckOrigin(r); err != nil {
			refuse(w, r, err)
			return
		}
		if r.Body != nil && (r.ContentLength < 0 || r.ContentLength >= inOneCall) && !introduces(c, r) {
			body := &countedBody{ReadCloser: r.Body}
			r.Body = body
			defer func() { s.limits.charge(c, r, body.bytes) }()
		}
		ctx := context.WithValue(r.Context(), callerKey{}, c)
		if active != nil {
			ctx = context.WithValue(ctx, activeCallKey{}, active)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// begin identifies the caller and waits for the turn of the call. End the call afterwards. If the call is
// refused, begin sets headers of the answer. Errors: those of who; TooManyRequests.
func (s *Server) begin(w http.ResponseWriter, r *http.Request,
	who func(*http.Request) (Caller, error)) (c Caller, active *activeCall, err error) {
	tooMuch := func(err error) (Caller, *activeCall, error) {
		w.Header().Set("Retry-After", "1")
		return Caller{}, nil, err
	}
	c, err = who(r)
	c.Address = r.RemoteAddr
	switch {
	case err != nil:
		w.Header().Set("Connection", "close") // the next call costs the caller a handshake
		if !s.limits.allowRefused(r) {
			refused("rate_of_refused")
			return tooMuch(api.Errorf(api.CodeTooManyRequests, "calls that are refused come too often from this address").
				Fix("call less often, with a certificate that is good"))
		}
		return Caller{}, nil, err
	case !s.limits.allow(c, r):
		refused("rate")
		return tooMuch(api.Errorf(api.CodeTooManyRequests, "%s calls too often", c).
			Fix("call less often: %g calls a second are allowed", s.Rate))
	case introduces(c, r):
		w.Header().Set("Connection", "close") // the next call costs the caller a handshake
		return c, nil, nil
	}
	key := callerKeyOf(c, r)
	if conn := connOf(r.Context()); conn != nil && c.Role != "" && !conn.setCaller(key) {
		refused("connections_of_caller")
		w.Header().Set("Connection", "close")
		return tooMuch(api.Errorf(api.CodeTooManyRequests,
			"%s has %d connections with an active call each", c, s.calls.bounds.PerCaller).
			Fix("wait for answers before calling again"))
	}
	if active, err = s.calls.begin(r, key); err != nil {
		return tooMuch(err)
	}
	return c, active, nil
}

// introduces reports that the body of a call identifies its caller. Such a call does not count towards
// the active calls of its address: otherwise a stranger that sends no body would block all clusters
// behind that address. The body is short, and the number of connections is bounded.
func introduces(c Caller, r *http.Request) bool {
	return c.Role == "" && (r.URL.Path == joinPath || r.URL.Path == renewPath)
}

// callerKeyOf returns the key for counting a caller. Without a certificate that is its IPv4 address or
// IPv6 /64.
func callerKeyOf(c Caller, r *http.Request) string {
	if c.Role != "" {
		return c.String()
	}
	return "address " + network(r.RemoteAddr)
}

// countedBody counts the bytes read from a body.
type countedBody struct {
	io.ReadCloser
	bytes int64
}

// Read implements io.Reader.
func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.bytes += int64(n)
	return n, err
}
