// Package enrollment makes a cluster a member of a broker and keeps it one. It finds the cluster's ID,
// joins with a token, renews the certificate, and rotates the cluster's key.
//
// Start at [New]: it loads the identity that the cluster keeps, or joins to get one. [Membership.Run]
// renews the certificate until the context ends. A cluster that has not joined works without its broker
// until a token lets it in: [Membership.Admission] says what it waits for. After that, and after
// [Membership.Rotate], Run returns [ErrJoined] or [ErrRotated]. The agent then starts again, so that no
// part of it goes on with the old identity.
//
// A cluster has one key. It may be a member of several brokers, with a certificate for each:
// [Membership.StoreFor] keeps them beside the identity at the main broker.
package enrollment

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/internal/trust"
)

// maxList bounds what the agent reads of one list of a broker, in bytes: the broker may list all that this
// cluster has. Decoded, a list takes at most about twice as much memory. So a list has at most a part of the memory
// that Go may take.
const maxList, partOfList = 48 << 20, 16

// Bounds on what the agent decodes of a broker's watch, in bytes of memory: this much at once, which is twice what
// is kept of one broker, and so much a second after that.
const watchAtOnce, partOfWatch, watchPerSecond = 384 << 20, 2, 8 << 20

// Options say which cluster enrolls where, and how.
type Options struct {
	// Cluster is the ID of this cluster.
	Cluster string
	// Broker is the name of the broker in errors. Default api.MainBroker.
	Broker string
	// Store keeps the identity. The other fields are needed once, while it is empty.
	Store store.Store
	// Home is the UID of namespace kube-system, with which an identity that came from another cluster is noticed. Empty: it
	// is not.
	Home string
	// Token is a join token. BrokerURL overrides the URL that it names.
	Token, BrokerURL string
	// Secret holds the join token that an admin may give at any time. Token comes before it. Nil: there is none.
	Secret *TokenSecret
	// Changed is called when Admission changes. Nil: nothing is.
	Changed func()
	// CertDir holds tls.crt, tls.key and ca.crt of a CA that is not the broker's. Then there is no token.
	CertDir string
	// NoBroker makes a membership in no broker: only the cluster has its key.
	NoBroker bool
	// Objects reach the broker through objects of its cluster instead of its REST API.
	Objects *objects.Access
	// Proxy finds the proxy for a call to the broker, as http.ProxyFromEnvironment does. Nil: there is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Clock is the machine's by default.
	Clock clock.WithDelayedExecution
	Log   *slog.Logger
}

// Membership is this cluster as a member of one broker.
type Membership struct {
	Options
	key       *clusterkey.Key
	rotations []string      // lead from the keys that the cluster had to key
	tls       *tlsid.Client // nil where the broker is reached through objects
	http      *http.Client
	calls     *session.Switch
	client    *client.Client
	url       string
	ca        []byte        // PEM, of the broker that the cluster joined by a token
	refused   chan struct{} // the broker refused the certificate, which has ended before its time
	rotated   chan struct{} // the store holds a newer key

	storing sync.Mutex // held while the stored identity changes

	admitting sync.Mutex
	admission Admission // protected by admitting
}

// New loads the cluster's identity. If it has none, New tries to join once, for at most tryJoin. If that
// fails, the membership has no broker yet: Admission says why, and Run tries again. So it is with an identity that is
// another cluster's. New ignores the token once there is an identity. With a provided certificate, or through objects, there is nothing to join: the
// cluster makes its key, and waits for approval at its first call.
// Errors: Invalid with the flag; those of the store.
func New(ctx context.Context, o Options) (*Membership, error) {
	o.Broker = cmp.Or(o.Broker, api.MainBroker)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	id, err := o.Store.Load(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	admission, err := o.checkHome(ctx, &id)
	if err != nil {
		return nil, err
	}
	m := &Membership{Options: o, admission: admission, rotated: make(chan struct{}, 1), refused: make(chan struct{}, 1)}
	switch {
	case m.IsCloned():
		m.Log.Warn("this cluster connects to nobody", "reason", admission.Reason, "error", admission.Err)
	case o.NoBroker:
		err = m.ensureKeys(ctx, "", &id)
	case o.Objects != nil:
		err = m.ensureKeys(ctx, o.Objects.Config.Host, &id)
	case o.CertDir != "":
		err = m.useProvided(ctx, &id)
	case len(id.CertPEM) > 0:
		err = nil
	default:
		if err = m.makeKeys(ctx, o.BrokerURL, &id); err == nil {
			m.admit(ctx, &id)
			err = ctx.Err() // a stop meanwhile is no answer
		}
	}
	if err == nil && len(id.CertPEM) > 0 && !o.NoBroker && o.Objects == nil && o.CertDir == "" {
		m.ca = id.CAPEM
		m.tls, err = tlsid.NewClient(id.TLSKeyPEM, id.CertPEM, id.CAPEM, o.Clock.Now)
	}
	if err != nil {
		return nil, err
	}
	if m.key, err = clusterkey.ParsePEM(id.ClusterKeyPEM); err != nil {
		return nil, err
	}
	m.rotations = id.Rotations
	switch {
	case m.Admission().Err != nil:
		m.url = cmp.Or(o.BrokerURL, m.Admission().URL)
		m.calls = session.NewSwitch(o.Broker, notJoined{m})
	case o.NoBroker:
		m.calls = session.NoBroker()
	default:
		m.url = cmp.Or(o.BrokerURL, id.BrokerURL)
		transport, err := m.openTransport(ctx)
		if err != nil {
			return nil, err
		}
		m.calls = session.NewSwitch(o.Broker, refusalNotifier{transport, m.refused})
	}
	m.http = &http.Client{Transport: m.calls}
	memory := debug.SetMemoryLimit(-1)
	m.client = client.New(m.url, m.http).WithLists(min(maxList, memory/partOfList)).
		WithPace(min(watchAtOnce, memory/partOfWatch), watchPerSecond)
	return m, nil
}

// openTransport opens the way to the broker: through objects of its cluster, or by TLS.
func (m *Membership) openTransport(ctx context.Context) (http.RoundTripper, error) {
	if m.Objects != nil {
		m.url = m.Objects.Config.Host // not the URL of the REST API, which the cluster may have used to join
		return objects.Open(ctx, m.Cluster, m.Objects, m.Log)
	}
	return &http.Transport{Proxy: m.Proxy, TLSClientConfig: m.tls.Config(), MaxIdleConnsPerHost: 16,
		IdleConnTimeout: 90 * time.Second}, nil
}

// Run renews the certificate until ctx ends; before the cluster has joined, it joins.
// Errors: ErrRotated once the cluster has a newer key; ErrJoined once it has joined, or is no clone any more.
func (m *Membership) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	switch {
	case m.IsCloned():
		group.Go(func() error { return m.awaitHome(ctx) })
	case m.Admission().Err != nil:
		group.Go(func() error { return m.joinLater(ctx) })
	default:
		group.Go(func() error { return m.renew(ctx) })
	}
	group.Go(func() error {
		select {
		case <-m.rotated:
			return ErrRotated
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// Key returns the cluster's key.
func (m *Membership) Key() *clusterkey.Key { return m.key }

// Rotations returns the signed documents that lead from the keys that the cluster had to Key.
func (m *Membership) Rotations() []string { return m.rotations }

// Former returns the fingerprints of the keys that the cluster had.
func (m *Membership) Former() []string {
	return fingerprints(trust.Former(m.Cluster, m.key.Public(), m.rotations))
}

// URL returns where the broker is, empty if there is none.
func (m *Membership) URL() string { return m.url }

// ProxyTo returns the proxy through which the broker at a URL is called, without its password, or "" without one.
func (m *Membership) ProxyTo(broker string) string {
	to, err := url.Parse(broker)
	if err != nil || m.Proxy == nil || m.Objects != nil {
		return ""
	}
	proxy, err := m.Proxy(&http.Request{URL: to})
	switch {
	case err != nil:
		return err.Error()
	case proxy == nil:
		return ""
	}
	return proxy.Redacted()
}

// Client returns the client of the broker.
func (m *Membership) Client() *client.Client { return m.client }

// Switch returns the switch of all calls to the broker.
func (m *Membership) Switch() *session.Switch { return m.calls }

// IsDisabled reports whether an admin disabled the broker.
func (m *Membership) IsDisabled() bool { return m.calls.IsOff() }

// Skew returns how far the broker's clock is ahead of this one.
func (m *Membership) Skew() time.Duration { return m.client.Skew() }

// Certificate returns the certificate that the broker sees. There is none where TokenEnds reports a token.
// Errors: those of Admission, while the cluster has not joined.
func (m *Membership) Certificate() (*x509.Certificate, error) {
	if err := m.Admission().Err; err != nil {
		return nil, err
	}
	if m.tls == nil { // it has joined just now, and starts again
		return nil, api.Errorf(api.CodeUnavailable, "the agent starts again with its certificate").Fix("repeat the command")
	}
	return m.tls.Certificate()
}

// TokenEnds returns when the token for the broker's cluster ends; zero: never. used is false where the
// broker is not reached through objects.
func (m *Membership) TokenEnds() (ends time.Time, used bool) {
	if m.Objects == nil {
		return time.Time{}, false
	}
	return m.Objects.Ends(), true
}

// CloseIdleConnections closes the connections to the broker that no call uses.
func (m *Membership) CloseIdleConnections() { m.http.CloseIdleConnections() }

// changedAtMost is how often a change of the stored identity is tried while other processes change it.
const changedAtMost = 3

// changeStored changes the stored identity, all of it or nothing. It calls change again if another process changed the
// identity meanwhile. Errors: those of change; ErrConflict.
func (m *Membership) changeStored(ctx context.Context, change func(*store.Identity) error) error {
	m.storing.Lock()
	defer m.storing.Unlock()
	for try := 1; ; try++ {
		id, err := m.Store.Load(ctx)
		if err != nil {
			return err
		}
		if err := change(&id); err != nil {
			return err
		}
		err = m.Store.Save(ctx, &id)
		if !errors.Is(err, store.ErrConflict) || try == changedAtMost {
			return err
		}
	}
}
