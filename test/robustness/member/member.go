// Package member is a cluster of a federation as small as it can be: its keys, its certificate, and the
// documents that a member signs. It consumes and provides as a test tells it to, so that it can be where
// no real agent would stop, repeat what none would, and vanish.
package member

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Member is a cluster that joined. Its methods may be called from any goroutine.
type Member struct {
	*client.Client
	*transporttest.Party

	federation string

	mu       sync.Mutex // held over a whole advertisement: an older one must not come later
	sequence api.Sequence
	accepted map[string]client.Reservation
}

// Join makes a cluster's keys and joins with a token, over TLS that the token pins. now is what its
// clock shows.
func Join(t testing.TB, id, text string, now time.Time) (*Member, error) {
	t.Helper()
	token, err := join.ParseToken(text)
	if err != nil {
		return nil, err
	}
	party := transporttest.NewParty(t, id)
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := tlsid.NewCSR(tlsKey)
	if err != nil {
		return nil, err
	}
	submission, err := join.Submit(token, party.Key,
		join.Request{Protocol: api.Protocol, Cluster: id, CSR: csr, Time: now})
	if err != nil {
		return nil, err
	}
	broker, err := url.Parse(token.BrokerURL)
	if err != nil {
		return nil, err
	}
	joined, err := client.New(token.BrokerURL, &http.Client{Transport: &http.Transport{
		TLSClientConfig: tlsid.JoinConfig(broker.Hostname(), token.Pin, time.Now), DisableKeepAlives: true,
	}}).Join(t.Context(), submission)
	if err != nil {
		return nil, err
	}
	certificate, err := tlsid.NewClient(tlsKey, []byte(joined.Certificate), []byte(joined.CA), time.Now)
	if err != nil {
		return nil, err
	}
	federation, err := certificate.Federation()
	if err != nil {
		return nil, err
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: certificate.Config(), MaxIdleConnsPerHost: 16}}
	t.Cleanup(hc.CloseIdleConnections)
	return &Member{
		Client: client.New(token.BrokerURL, hc), Party: party, federation: federation,
		sequence: api.Sequence{Incarnation: time.Now().UnixMilli()}, accepted: map[string]client.Reservation{},
	}, nil
}

// RenewCertificate asks for another certificate.
func (m *Member) RenewCertificate(ctx context.Context) error {
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(tlsKey)
	if err != nil {
		return err
	}
	renewal, err := join.Renew(m.Key, m.Rotations,
		join.RenewalRequest{Protocol: api.Protocol, Federation: m.federation, Cluster: m.ID, CSR: csr, Time: time.Now()})
	if err == nil {
		_, err = m.Renew(ctx, renewal)
	}
	return err
}

// ShowCard shows a card of this cluster; each is newer than the last one.
func (m *Member) ShowCard(ctx context.Context) error {
	return m.PutCard(ctx, m.ID, m.Card(api.Properties{Region: "eu"}))
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
	return m.PutAdvertisement(ctx, m.ID, api.Measurement{
		Sequence: m.sequence, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: all, Allocatable: all, Shared: all, Accounts: accounts}},
	})
}

// Agree puts an assignment into this provider's own books, and signs that.
func (m *Member) Agree(r client.Reservation) string {
	m.mu.Lock()
	m.accepted[r.ID] = r
	m.mu.Unlock()
	return m.Party.Agree(r)
}

// Forget takes a reservation out of this provider's own books: nothing is left of it.
func (m *Member) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.accepted, id)
}

// Bind takes a held reservation to Reserved: the consumer signs, provider accepts.
func (m *Member) Bind(ctx context.Context, r client.Reservation, provider *Member) (client.Reservation, error) {
	r, err := m.Confirm(ctx, r.ID, m.Assign(r))
	if err != nil {
		return r, err
	}
	return provider.Accept(ctx, r.ID, provider.Agree(r))
}
