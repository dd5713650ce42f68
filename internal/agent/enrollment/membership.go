package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Bounds on what the agent reads of one list, in bytes: of a broker's, which may have all that this cluster has, and of a connector's, which has
// what one seller offers. Decoded, a list takes at most about twice as much.
// maxConnectorLists is for all connectors together that are asked at the same time.
const maxList, maxConnectorList, maxConnectorLists = 48 << 20, 8 << 20, 32 << 20

// membership is who this cluster is to its broker and to its peers.
type membership struct {
	cluster string
	key     *clusterkey.Key
	// rotations lead from the keys that the cluster had to key.
	rotations []string
	// rotated tells that the store holds a newer key.
	rotated chan struct{}
	tls     *tlsid.Client
	objects *objects.Access // instead of tls
	http    *http.Client
	valve   *valve
	broker  *client.Client
	url     string
	store   store.Store
	log     *slog.Logger
	// refused tells that the broker refused the certificate: it has ended before its time.
	refused chan struct{}

	changing sync.Mutex // of what is in the store
}

// enter loads the cluster's identity, or joins with the token to get one. A token is not
// looked at once there is an identity. Where certificates are provided, there is nothing to join: the
// cluster only makes its key, and waits for approval at its first call.
func enter(ctx context.Context, cluster string, o Options, log *slog.Logger) (*membership, error) {
	id, err := o.Identity.Load(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	m := &membership{cluster: cluster, store: o.Identity, log: log, rotated: make(chan struct{}, 1), refused: make(chan struct{}, 1)}
	switch {
	case o.Objects != nil:
		m.objects = o.Objects
		err = m.keys(ctx, o.Objects.Config.Host, o, &id)
	case o.CertDir != "":
		err = m.provided(ctx, o, &id)
	case len(id.CertPEM) > 0:
		m.tls, err = tlsid.NewClient(id.TLSKeyPEM, id.CertPEM, id.CAPEM, time.Now)
	case o.Join != "":
		if err = joinWith(ctx, cluster, o.Join, o.BrokerURL, &id, o.Identity, log); err == nil {
			m.tls, err = tlsid.NewClient(id.TLSKeyPEM, id.CertPEM, id.CAPEM, time.Now)
		}
	default:
		err = api.Errorf(api.CodeUnauthenticated, "this cluster has not joined a broker yet").
			Fix("ask the broker's operator for a token (bourse broker token create) and start the agent with --join TOKEN")
	}
	if err != nil {
		return nil, err
	}
	if m.key, err = clusterkey.ParsePEM(id.ClusterKeyPEM); err != nil {
		return nil, err
	}
	m.rotations = id.Rotations
	m.url = id.BrokerURL
	if o.BrokerURL != "" {
		m.url = o.BrokerURL
	}
	var way http.RoundTripper
	if o.Objects != nil {
		m.url = o.Objects.Config.Host // whatever broker it was that the cluster joined by REST before
		if way, err = objects.Open(ctx, cluster, o.Objects, log); err != nil {
			return nil, err
		}
	} else {
		way = &http.Transport{TLSClientConfig: m.tls.Config(), MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second}
	}
	m.valve = newValve(cmp.Or(o.brokerName, api.MainBroker), noticing{way, m.refused})
	m.http = &http.Client{Transport: m.valve}
	m.broker = client.New(m.url, m.http).WithLists(maxList)
	return m, nil
}

// provided takes the certificate that the admin put into a folder, and makes the cluster's key.
func (m *membership) provided(ctx context.Context, o Options, id *store.Identity) (err error) {
	if o.BrokerURL == "" {
		return api.Invalid("--broker-url", "is empty").Fix("with --broker-cert-path, say where the broker is: --broker-url https://HOST:PORT")
	}
	if m.tls, err = tlsid.OpenClient(o.CertDir, time.Now, m.log); err != nil {
		return err
	}
	return m.keys(ctx, o.BrokerURL, o, id)
}

// keys makes the cluster's keys, where there is nothing to join.
func (m *membership) keys(ctx context.Context, broker string, o Options, id *store.Identity) error {
	if len(id.ClusterKeyPEM) > 0 {
		return nil
	}
	return makeKeys(ctx, broker, id, o.Identity)
}

// joinWith makes the cluster's keys, keeps them, and then asks the broker, as often as it takes: the same
// keys may ask again with a spent token when an answer was lost.
func joinWith(ctx context.Context, cluster, text, broker string, id *store.Identity, s store.Store, log *slog.Logger) error {
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	if broker == "" {
		broker = token.BrokerURL
	}
	if err := makeKeys(ctx, broker, id, s); err != nil {
		return err
	}
	key, err := clusterkey.ParsePEM(id.ClusterKeyPEM)
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(id.TLSKeyPEM)
	if err != nil {
		return err
	}
	at, err := url.Parse(broker)
	if err != nil {
		return err
	}
	c := client.New(broker, &http.Client{Transport: &http.Transport{
		TLSClientConfig: tlsid.JoinConfig(at.Hostname(), token.Pin, time.Now), DisableKeepAlives: true,
	}})
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		submission, err := join.Submit(token, key, join.Request{Protocol: api.Protocol, Cluster: cluster, CSR: csr, Time: time.Now().UTC()})
		if err != nil {
			return err
		}
		answer, err := c.Join(ctx, submission)
		if err == nil {
			id.CertPEM, id.CAPEM = []byte(answer.Certificate), []byte(answer.CA)
			log.Info("joined", "broker", broker, "fingerprint", key.Public().Fingerprint(), "state", answer.State)
			return s.Save(ctx, id)
		}
		if code := api.CodeOf(err); code != api.CodeUnavailable && code != api.CodeTooManyRequests {
			return err
		}
		again := wait/2 + mathrand.N(wait) // clusters that were refused at the same time do not come back at the same time
		log.Warn("the broker cannot be joined now", "error", err, "again in", again)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func makeKeys(ctx context.Context, broker string, id *store.Identity, s store.Store) error {
	id.BrokerURL = broker
	if len(id.ClusterKeyPEM) == 0 {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			return err
		}
		if id.ClusterKeyPEM, err = key.PEM(); err != nil {
			return err
		}
	}
	if len(id.TLSKeyPEM) == 0 {
		var err error
		if id.TLSKeyPEM, err = tlsid.NewKey(); err != nil {
			return err
		}
	}
	return s.Save(ctx, id)
}

// noticing carries calls and tells when one was refused because of the certificate.
type noticing struct {
	http.RoundTripper
	refused chan<- struct{}
}

// RoundTrip implements http.RoundTripper.
func (n noticing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		select {
		case n.refused <- struct{}{}:
		default:
		}
	}
	return answer, err
}

// CloseIdleConnections is for http.Client, which looks for it.
func (n noticing) CloseIdleConnections() {
	if c, ok := n.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// renew renews the certificate at half of its life, when the broker refuses it, and at once where the cluster has rotated its key
// since it was issued, until ctx ends. One that was provided is its provider's to renew.
func (m *membership) renew(ctx context.Context, o Options) error {
	if o.CertDir != "" || o.Objects != nil {
		return nil
	}
	rotated := m.lastRotation() // looked at once: the clocks of cluster and broker may differ
	for {
		certificate, err := m.tls.Certificate()
		if err != nil {
			return err
		}
		wait := max(time.Until(tlsid.RenewAt(certificate, m.cluster)), time.Minute)
		if rotated.After(tlsid.IssuedAt(certificate)) { // the stolen key's certificates end by it
			wait, rotated = 0, time.Time{}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-m.refused:
			m.log.Warn("the broker refused the certificate: renewing it")
		}
		if err := m.renewOnce(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("the certificate was not renewed, will try again", "error", err, "expires", certificate.NotAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(market.RenewEvery + mathrand.N(market.RenewEvery)): // not all that were refused at the same time
		}
	}
}

// renewOnce renews the certificate by the cluster key. It shows none: the one that it has may have ended.
func (m *membership) renewOnce(ctx context.Context) error {
	if m.valve.closed() {
		return api.Errorf(api.CodeUnavailable, "broker %s is disabled here", m.valve.name).Fix("bourse brokers enable %s", m.valve.name)
	}
	federation, err := m.tls.Federation()
	if err != nil {
		return err
	}
	key, err := tlsid.NewKey()
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(key)
	if err != nil {
		return err
	}
	renewal, err := join.Renew(m.key, m.rotations, join.RenewalRequest{Protocol: api.Protocol, Federation: federation, Cluster: m.cluster, CSR: csr, Time: time.Now()})
	if err != nil {
		return err
	}
	answer, err := client.New(m.url, &http.Client{Transport: &http.Transport{
		TLSClientConfig: m.tls.AnonymousConfig(), DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second,
	}}).Renew(ctx, renewal)
	if err != nil {
		return err
	}
	certificate := []byte(answer.Certificate)
	if err := m.tls.Replace(key, certificate); err != nil { // before it is stored: the former one ends, whether that works or not
		return err
	}
	m.http.CloseIdleConnections()                                          // so that the next call shows the new one
	time.AfterFunc(market.CertificateGrace/2, m.http.CloseIdleConnections) // those of calls that were under way
	return m.change(ctx, func(id *store.Identity) error {
		id.TLSKeyPEM, id.CertPEM = key, certificate
		return nil
	})
}

// lastRotation is when the cluster's key was made the successor of another one, by this cluster's clock; zero: it never was.
func (m *membership) lastRotation() time.Time {
	if len(m.rotations) == 0 {
		return time.Time{}
	}
	return trust.Rotated(m.rotations[len(m.rotations)-1])
}

// change changes what is kept of this cluster's identity, all of it or nothing.
func (m *membership) change(ctx context.Context, do func(*store.Identity) error) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	id, err := m.store.Load(ctx)
	if err != nil {
		return err
	}
	if err := do(&id); err != nil {
		return err
	}
	return m.store.Save(ctx, &id)
}
