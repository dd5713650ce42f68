package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ConnectorName is the object in which an agent's connector keeps its market.
const ConnectorName = "connector"

// connectorBodies is how much memory the large bodies of a connector's callers may take together, in bytes: its own advertisements, and what
// others send.
const connectorBodies = 64 << 20

// connectorTail is after how many events that is folded: it may hold many reservations, and nobody waits for each write.
const connectorTail = 200

// connectorAppend is about how many bytes of events go into one append, so that each fits into one part.
const connectorAppend = 256 << 10

// shop is this cluster's connector: a broker for this cluster alone, in its own agent. Whoever is known here by its cluster key is a
// member; there is no CA and no operator. What it sells, the gate accepts or refuses, as with any broker.
type shop struct {
	cluster string
	key     *clusterkey.Key
	ledger  *exchange.Exchange // whom this cluster knows
	market  *exchange.Exchange
	server  *server.Server
	log     *slog.Logger
}

// openShop loads the connector's market, which it returns, too, and serves its own cluster in memory and others at the address.
func (a *agent) openShop(ctx context.Context, group *errgroup.Group, cluster string, key *clusterkey.Key, ledger *exchange.Exchange, log *slog.Logger) (transport.Broker, *exchange.Exchange, error) {
	listener, err := net.Listen("tcp", a.ConnectorListen)
	if err != nil {
		return nil, nil, api.Invalid("--connector-listen", "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	journal := kube.New(a.mgr.GetClient(), runtimeclient.ObjectKey{Namespace: a.Namespace, Name: ConnectorName}, kube.Parts)
	books, err := exchange.Open(ctx, journal, exchange.Options{Resume: true, SnapshotEvery: connectorTail, AppendBytes: connectorAppend, Clock: a.Clock, Log: log.With("part", "connector")})
	if err != nil {
		_ = listener.Close()
		return nil, nil, err
	}
	s := &shop{cluster: cluster, key: key, ledger: ledger, market: books, log: log}
	s.server = server.New(server.Options{Exchange: books, Engine: match.New(), URL: a.ConnectorURL, BodyMemory: connectorBodies, InForce: s.inForce, Log: log})
	config, err := key.ServerTLS(cluster, s.known(ctx))
	if err != nil {
		return nil, nil, err
	}
	inside := newPipes()
	group.Go(func() error { return books.Run(ctx) })
	group.Go(func() error {
		stop := context.AfterFunc(ctx, books.EndWatches)
		defer stop()
		return server.ServeTLS(ctx, listener, config, s.server.For(s.caller(ctx)), server.Bounds{})
	})
	group.Go(func() error {
		own := func(*http.Request) (server.Caller, error) {
			return server.Caller{Role: tlsid.RoleCluster, Name: cluster}, s.admit(ctx, cluster)
		}
		return server.Serve(ctx, inside, s.server.For(own))
	})
	log.Info("the connector serves", "address", listener.Addr(), "url", a.ConnectorURL)
	return transport.NewHTTP(cluster, client.New("http://connector", &http.Client{Transport: &http.Transport{DialContext: inside.dial}})), books, nil
}

// known are the keys that the Ledger has of a cluster.
func (s *shop) known(ctx context.Context) clusterkey.Known {
	return func(cluster string) []clusterkey.PublicKey {
		keys, _ := trust.Keys(ctx, s.ledger, cluster)
		return keys
	}
}

// inForce says whether this cluster's Ledger has a document of its own in force. It may be by a key that the cluster has given up.
func (s *shop) inForce(ctx context.Context, cluster, reservation, document string) (is bool) {
	_ = s.ledger.Read(ctx, func(m *market.State) {
		r := m.Reservation(reservation)
		is = r != nil && cluster == s.cluster && r.Provider == cluster && r.Bound() && r.Acceptance == document
	})
	return is
}

// caller is who calls, by the key that its connection has proven.
func (s *shop) caller(ctx context.Context) func(*http.Request) (server.Caller, error) {
	known := s.known(ctx)
	return func(r *http.Request) (server.Caller, error) {
		if r.TLS == nil {
			return server.Caller{}, api.Errorf(api.CodeUnauthenticated, "the call is not over TLS")
		}
		cluster, err := clusterkey.TLSPeer(*r.TLS, known) // again: it may have another key by now
		if err != nil {
			return server.Caller{}, api.Errorf(api.CodeUnauthenticated, "%s", err).Fix("become known first: by a reservation through a broker, or by bourse trust")
		}
		still := func() error {
			_, err := clusterkey.TLSPeer(*r.TLS, known)
			return err
		}
		return server.Caller{Role: tlsid.RoleCluster, Name: cluster, Still: still}, s.admit(r.Context(), cluster)
	}
}

// admit makes a cluster that is known a member.
func (s *shop) admit(ctx context.Context, cluster string) error {
	if l := s.market.View().Listing(cluster); l != nil && l.Active() {
		return nil
	}
	key := s.key.Public()
	if cluster != s.cluster {
		var err error
		if key, err = trust.Key(ctx, s.ledger, cluster); err != nil {
			return err
		}
	}
	if _, err := s.market.Do(ctx, market.Enroll{Cluster: cluster, Key: key.String(), Source: "connector"}); err != nil && api.CodeOf(err) != api.CodeConflict {
		return err
	}
	_, err := s.market.Do(ctx, market.SetMember{Cluster: cluster, State: api.MemberActive})
	return err
}

// pipes is a listener in memory: the agent calls its own connector like any other.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.calls <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "connector", Net: "unix"} }

// checkConnector says what is wrong with how the connector is to be reached. Errors: Invalid with the flag.
func checkConnector(o Options) error {
	if (o.ConnectorListen == "") != (o.ConnectorURL == "") {
		return api.Invalid("--connector-listen", "it and --connector-url go together").Fix("say both: where the agent listens, and the URL at which others reach that")
	}
	if o.ConnectorURL == "" {
		return nil
	}
	at, err := url.Parse(o.ConnectorURL)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.Path != "" && at.Path != "/" || at.User != nil {
		return api.Invalid("--connector-url", "%.80q is not the URL of a connector", o.ConnectorURL).Fix("write https://HOST:PORT")
	}
	return nil
}
