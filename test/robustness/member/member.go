// Package member is a cluster of a federation as small as it can be: its keys, its certificate, and the
// documents that a member signs. It consumes and provides as a test tells it to, so that it can be where
// no real agent would stop, repeat what none would, and vanish.
package member

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

// Member is a cluster that joined. Its methods may be called from any goroutine.
type Member struct {
	*client.Client
	Name string
	// HTTP is what Client calls with: its Transport may be replaced before the first call.
	HTTP *http.Client
	key  *clusterkey.Key

	mu       sync.Mutex // held over a whole advertisement: an older one must not come later
	sequence api.Sequence
	accepted map[string]client.Reservation
}

// Join makes a cluster's keys and joins with a token, over TLS that the token pins. now is what its clock shows.
func Join(ctx context.Context, name, text string, now time.Time) (*Member, error) {
	token, err := join.ParseToken(text)
	if err != nil {
		return nil, err
	}
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := tlsid.NewCSR(tlsKey)
	if err != nil {
		return nil, err
	}
	submission, err := join.Submit(token, key, join.Request{Protocol: api.Protocol, Cluster: name, CSR: csr, Time: now})
	if err != nil {
		return nil, err
	}
	broker, err := url.Parse(token.BrokerURL)
	if err != nil {
		return nil, err
	}
	joined, err := client.New(token.BrokerURL, &http.Client{Transport: &http.Transport{
		TLSClientConfig: tlsid.JoinConfig(broker.Hostname(), token.Pin, time.Now), DisableKeepAlives: true,
	}}).Join(ctx, submission)
	if err != nil {
		return nil, err
	}
	certificate, err := tlsid.NewClient(tlsKey, []byte(joined.Certificate), []byte(joined.CA), time.Now)
	if err != nil {
		return nil, err
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: certificate.Config(), MaxIdleConnsPerHost: 16}}
	return &Member{
		Client: client.New(token.BrokerURL, hc), Name: name, HTTP: hc, key: key,
		sequence: api.Sequence{Incarnation: time.Now().UnixMilli()}, accepted: map[string]client.Reservation{},
	}, nil
}

// Close closes its connections.
func (m *Member) Close() { m.HTTP.CloseIdleConnections() }

// ShowCard shows a card of this cluster; each is newer than the last one.
func (m *Member) ShowCard(ctx context.Context) error {
	card, err := m.key.Sign(api.DocumentCard, api.Card{
		Cluster: m.Name, Key: m.key.Public().String(), Number: time.Now().UnixMilli(), Properties: api.Properties{Region: "eu"},
	})
	if err != nil {
		return err
	}
	return m.PutCard(ctx, m.Name, card)
}

// Offer advertises so much to everyone, and what this cluster has accepted.
func (m *Member) Offer(ctx context.Context, all api.Resources) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sequence.Number++
	accounts := map[string]api.AccountUse{}
	for id, r := range m.accepted {
		if accounts[r.Payload.Consumer].Commitments == nil {
			accounts[r.Payload.Consumer] = api.AccountUse{Commitments: map[string]api.Resources{}}
		}
		accounts[r.Payload.Consumer].Commitments[id] = r.Payload.Resources
	}
	return m.PutAdvertisement(ctx, m.Name, api.Measurement{
		Sequence: m.sequence, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: all, Allocatable: all, Shared: all, Accounts: accounts}},
	})
}

// Accepted is what this cluster, as a provider, is bound to.
func (m *Member) Accepted() map[string]client.Reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.accepted)
}

// Assignment signs, as the consumer, what is held for it on provider.
func (m *Member) Assignment(r client.Reservation, provider *Member) (string, error) {
	p := r.Payload
	return m.key.Sign(api.DocumentAssignment, api.Assignment{
		Protocol: api.Protocol, Reservation: r.ID, Generation: p.Generation,
		Consumer: m.Name, ConsumerKey: m.key.Public().Fingerprint().String(),
		Provider: p.Provider, ProviderKey: provider.key.Public().Fingerprint().String(),
		Pool: p.Pool, Slice: p.Slice, Resources: p.Resources,
		Until: seconds(p.Until), Expires: seconds(p.HeldUntil),
	})
}

// seconds is a time as documents have it: whole seconds, in UTC.
func seconds(t metav1.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Acceptance puts an assignment into this provider's own books, and signs that.
func (m *Member) Acceptance(r client.Reservation) (string, error) {
	m.mu.Lock()
	m.accepted[r.ID] = r
	m.mu.Unlock()
	return m.key.Sign(api.DocumentAcceptance, api.Acceptance{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Payload.Generation,
		Consumer: r.Payload.Consumer, Provider: m.Name,
		Assignment: clusterkey.Digest(r.Payload.Assignment).String(),
		Expires:    metav1.NewTime(seconds(r.Payload.HeldUntil).Add(market.SkewGrace)),
	})
}

// Forget takes a reservation out of this provider's own books: nothing is left of it.
func (m *Member) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.accepted, id)
}

// End signs that a reservation ends.
func (m *Member) End(r client.Reservation, reason api.Reason) (string, error) {
	return m.key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Payload.Generation, By: m.Name,
		Consumer: r.Payload.Consumer, Provider: r.Payload.Provider, Reason: reason,
	})
}

// Bind takes a held reservation to Reserved: the consumer signs, provider accepts.
func (m *Member) Bind(ctx context.Context, r client.Reservation, provider *Member) (client.Reservation, error) {
	assignment, err := m.Assignment(r, provider)
	if err != nil {
		return r, err
	}
	if r, err = m.Confirm(ctx, r.ID, assignment); err != nil {
		return r, err
	}
	acceptance, err := provider.Acceptance(r)
	if err != nil {
		return r, err
	}
	return provider.Accept(ctx, r.ID, acceptance)
}
