// Package direct deals with other clusters directly, without a broker. A [Connector] serves other clusters,
// and [Sellers] calls the connectors of others. Start at [NewConnector] and [Sellers.Run].
package direct

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ObjectName is the name of the Ledger object in which a connector keeps its market.
const ObjectName = "connector"

const (
	// bodyMemory bounds the memory that large bodies take together, in bytes: advertisements of this
	// cluster, and what others send.
	bodyMemory = 64 << 20
	// snapshotEvery is the number of events after which the journal is folded. Nobody waits for each
	// write, and there may be many reservations.
	snapshotEvery = 200
	// appendBytes is about how many bytes of events one append has, so that each fits into one part.
	appendBytes = 256 << 10
)

// ConnectorOptions say whom the connector serves, and where.
type ConnectorOptions struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Ledger has the keys of the clusters that this one knows.
	Ledger *exchange.Exchange
	// Proposed is called with the ID of a proposal that the Ledger keeps. May be nil.
	Proposed func(id string)
	// Journal keeps the connector's market.
	Journal journal.Journal
	// Listen is the address at which it listens, HOST:PORT. URL is where others reach that.
	Listen, URL string
	// MarketClock is the machine's by default.
	MarketClock exchange.Clock
	Log         *slog.Logger
}

// CheckConnector reports which of the two addresses is missing or wrong. Errors: Invalid with the flag.
func CheckConnector(listen, address string) error {
	if (listen == "") != (address == "") {
		return api.Invalid("--connector-listen", "must be given together with --connector-url").
			Fix("give both: where the agent listens, and the URL at which others reach it")
	}
	if address == "" {
		return nil
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.Path != "" && parsed.Path != "/" ||
		parsed.User != nil {
		return api.Invalid("--connector-url", "%.80q is not the URL of a connector", address).Fix("write https://HOST:PORT")
	}
	return nil
}

// Connector is a broker for one cluster, inside that cluster's agent. It has the broker's server and a market
// of its own. A caller is a member if this cluster's Ledger has the key that its connection proves, or if its
// admin named that key; there is no CA and no operator. The gate accepts or refuses what is sold here as at
// any broker. The Ledger keeps what buyers propose. The agent calls its own connector in memory, by
// [Connector.Broker].
type Connector struct {
	ConnectorOptions
	market   *exchange.Exchange
	server   *server.Server
	listener net.Listener
	inside   *memoryListener
}

// NewConnector loads the connector's market and listens. Errors: Invalid with the flag; those of the journal.
func NewConnector(ctx context.Context, o ConnectorOptions) (*Connector, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, api.Invalid("--connector-listen", "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	books, err := exchange.Open(ctx, o.Journal, exchange.Options{
		Resume: true, SnapshotEvery: snapshotEvery, AppendBytes: appendBytes, Clock: o.MarketClock, Log: o.Log.With("part",
			"connector"),
	})
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	c := &Connector{ConnectorOptions: o, market: books, listener: listener, inside: newMemoryListener()}
	c.server = server.New(server.Options{Exchange: books, Engine: match.New(),
		URL: o.URL, BodyMemory: bodyMemory, InForce: c.inForce, Ledger: o.Ledger, Proposed: o.Proposed, Log: o.Log})
	return c, nil
}

// Market returns the connector's market.
func (c *Connector) Market() *exchange.Exchange { return c.market }

// Broker returns the connector as this cluster's agent calls it. Its calls wait until Run serves.
func (c *Connector) Broker() transport.Broker {
	return transport.NewHTTP(c.Cluster, client.New("http://connector",
		&http.Client{Transport: &http.Transport{DialContext: c.inside.dial}}))
}

// Run serves this cluster and the others until ctx ends.
func (c *Connector) Run(ctx context.Context) error {
	config, err := c.Key.ServerTLS(c.Cluster, trust.KnownKeys(ctx, c.Ledger))
	if err != nil {
		_ = c.listener.Close()
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.market.Run(ctx) })
	group.Go(func() error {
		defer context.AfterFunc(ctx, c.market.EndWatches)()
		return server.ServeTLS(ctx, c.listener, config, c.server.For(c.caller(ctx)), server.Bounds{})
	})
	group.Go(func() error {
		own := func(*http.Request) (server.Caller, error) {
			return server.Caller{Role: tlsid.RoleCluster, Name: c.Cluster}, c.admit(ctx, c.Cluster, c.Key.Public())
		}
		return server.Serve(ctx, c.inside, c.server.For(own))
	})
	c.Log.Info("the connector serves", "address", c.listener.Addr(), "url", c.URL)
	return group.Wait()
}

// inForce reports whether this cluster's Ledger has an acceptance of its own in force. The key that signed
// it may be a former one.
func (c *Connector) inForce(ctx context.Context, cluster, reservation, document string) bool {
	r, _ := c.Ledger.Reservation(ctx, reservation)
	return r != nil && cluster == c.Cluster && r.Provider == cluster && r.Bound() && r.Acceptance == document
}

// caller returns which cluster calls, by the key that its connection proved. A call that takes long ends
// when the Ledger no longer has that key.
func (c *Connector) caller(ctx context.Context) func(*http.Request) (server.Caller, error) {
	known := trust.KnownKeys(ctx, c.Ledger)
	return func(r *http.Request) (server.Caller, error) {
		if r.TLS == nil {
			return server.Caller{}, api.Errorf(api.CodeUnauthenticated, "the call is not over TLS")
		}
		cluster, key, err := clusterkey.TLSPeer(*r.TLS, known) // again: it may have another key by now
		if err != nil {
			return server.Caller{}, api.Errorf(api.CodeUnauthenticated, "%s", err).
				Fix("become known first: by a reservation through a broker, or by bourse peers add there")
		}
		still := func() error {
			_, _, err := clusterkey.TLSPeer(*r.TLS, known)
			return err
		}
		return server.Caller{Role: tlsid.RoleCluster, Name: cluster, Still: still}, c.admit(r.Context(), cluster, key)
	}
}

// admit makes a known cluster an active member, with the key that it has proven.
func (c *Connector) admit(ctx context.Context, cluster string, key clusterkey.PublicKey) error {
	l := c.market.View().Listing(cluster)
	switch {
	case l == nil || !l.Active():
	case !c.isReplaced(ctx, cluster, l.Member.Key, key):
		return nil
	default: // it joins again; the gate keeps what it accepted from the lost key
		if _, err := c.market.Do(ctx, market.SetMember{Cluster: cluster, State: api.MemberRemoved}); err != nil {
			return err
		}
	}
	if _, err := c.market.Do(ctx, market.Enroll{Cluster: cluster, Key: key.String(), Source: "connector"}); err != nil &&
		api.CodeOf(err) != api.CodeConflict {
		return err
	}
	_, err := c.market.Do(ctx, market.SetMember{Cluster: cluster, State: api.MemberActive})
	return err
}

// isReplaced reports whether another cluster has proven a key that its earlier one did not sign: its admin lost that
// one, and this cluster's admin named the new one.
func (c *Connector) isReplaced(ctx context.Context, cluster, before string, proven clusterkey.PublicKey) bool {
	if cluster == c.Cluster || before == proven.String() {
		return false
	}
	known, _ := c.Ledger.Member(ctx, cluster)
	return known != nil && !(known.Key == proven.String() && known.Succeeds(before))
}
