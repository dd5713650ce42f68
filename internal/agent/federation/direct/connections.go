package direct

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Bounds on the connections to one connector. The session and the lists of all connectors share them. A call waits for a free connection until its context ends.
const (
	maxConnections     = 32
	maxIdleConnections = 4
	idleFor            = 90 * time.Second
	tlsWithin          = 10 * time.Second
)

// target is where a seller's connector is, and which key the admin named for it. Each connection is checked
// when it opens, so that another key takes other connections.
type target struct{ url, trusted string }

// connection has the connections to one connector.
type connection struct {
	target
	*http.Transport
}

// connections has one connection for each connector that is called.
type connections struct {
	mu     sync.Mutex
	closed bool
	by     map[string]*connection // by seller
}

// target returns where the connector of a seller is, with an empty URL if none is known.
func (s *Sellers) target(ctx context.Context, seller string) (to target, err error) {
	known, err := s.Ledger.Member(ctx, seller)
	if known != nil {
		to = target{known.ConnectorURL(), known.Trusted}
	}
	return to, err
}

// connect returns the connection to a seller's connector. Its key must be one that the Ledger has for the
// seller, or that the admin named, when a connection opens.
// Errors: Unavailable where no connector is known, or at no https URL.
func (s *Sellers) connect(ctx context.Context, seller string) (*connection, error) {
	target, err := s.target(ctx, seller)
	if err != nil {
		return nil, err
	}
	if target.url == "" {
		return nil, api.Errorf(api.CodeUnavailable, "this cluster knows no connector of %s: they have not dealt with each other, or %[1]s has none", seller).
			Fix("buy from it through a broker first, or ask its admin to start one: bourse agent --connector-listen")
	}
	if u, err := url.Parse(target.url); err != nil || u.Scheme != "https" {
		return nil, api.Errorf(api.CodeUnavailable,
			"the connector of %s is at %.200q, which is no https URL", seller, target.url).
			Fix("ask its admin to set --connector-url https://HOST:PORT")
	}
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	before := s.connections.by[seller]
	switch {
	case s.connections.closed:
		return nil, api.Errorf(api.CodeUnavailable, "the agent is ending")
	case before != nil && before.target == target:
		return before, nil
	}
	config, err := s.Key.ClientTLS(s.Cluster, seller, trust.KnownKeys(s.ctx, s.Ledger)) // a connection outlives the call
	if err != nil {
		return nil, err
	}
	check := config.VerifyConnection
	config.VerifyConnection = func(c tls.ConnectionState) error { return explain(check(c)) }
	to := &connection{target, &http.Transport{
		DialContext: s.Addresses.Dialer().DialContext, TLSClientConfig: config, TLSHandshakeTimeout: tlsWithin,
		MaxConnsPerHost: maxConnections, MaxIdleConnsPerHost: maxIdleConnections, IdleConnTimeout: idleFor,
	}}
	s.connections.by[seller] = to
	if before != nil {
		before.CloseIdleConnections() // those of calls that are under way close after them
	}
	return to, nil
}

// closeUnknown closes the connections to connectors that the Ledger does not have any more.
func (s *Sellers) closeUnknown(ctx context.Context) {
	members, err := s.Ledger.Members(ctx)
	if err != nil {
		return
	}
	known := map[string]target{}
	for _, member := range members {
		known[member.Cluster] = target{member.ConnectorURL(), member.Trusted}
	}
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	for seller, connection := range s.connections.by {
		if known[seller] != connection.target {
			connection.CloseIdleConnections()
			delete(s.connections.by, seller)
		}
	}
}

// closeConnections closes all connections, and opens none from now on.
func (s *Sellers) closeConnections() {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	s.connections.closed = true
	for seller, connection := range s.connections.by {
		connection.CloseIdleConnections()
		delete(s.connections.by, seller)
	}
}
