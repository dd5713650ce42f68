package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// member is a cluster that joined by the front door: a token, a key and a certificate of its own.
type member struct {
	cluster string
	key     *clusterkey.Key
	tls     *tlsid.Client
	broker  *client.Client
	address string // of the broker, HOST:PORT
	// measured is its first advertisement.
	measured api.Measurement
}

// joinAll makes so many members, each with a card and with more capacity than will be asked for.
func joinAll(ctx context.Context, p *process, n int) ([]*member, error) {
	operator := client.New("unix://"+p.socket(), nil)
	all := make([]*member, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range all {
		group.Go(func() (err error) {
			all[i], err = newMember(ctx, operator, fmt.Sprintf("cluster-%03d", i), i)
			return err
		})
	}
	return all, group.Wait()
}

func newMember(ctx context.Context, operator *client.Client, cluster string, number int) (*member, error) {
	m := &member{cluster: cluster}
	var err error
	if m.key, err = clusterkey.New(rand.Reader); err != nil {
		return nil, err
	}
	created, err := operator.CreateToken(ctx, cluster, time.Hour)
	if err != nil {
		return nil, err
	}
	if err := m.join(ctx, created.Token, number); err != nil {
		return nil, err
	}
	return m, m.show(ctx)
}

// join gets the certificate. Joining is limited for each address, so each comes from one of its own.
func (m *member) join(ctx context.Context, text string, number int) error {
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	broker, err := url.Parse(token.BrokerURL)
	if err != nil {
		return err
	}
	m.address = broker.Host
	key, err := tlsid.NewKey()
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(key)
	if err != nil {
		return err
	}
	submission, err := join.Submit(token, m.key, join.Request{Protocol: api.Protocol, Cluster: m.cluster, CSR: csr, Time: time.Now()})
	if err != nil {
		return err
	}
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+number))}}
	answer, err := client.New(token.BrokerURL, &http.Client{Transport: &http.Transport{
		TLSClientConfig: tlsid.JoinConfig(broker.Hostname(), token.Pin, time.Now), DialContext: from.DialContext, DisableKeepAlives: true,
	}}).Join(ctx, submission)
	if err != nil {
		return err
	}
	if m.tls, err = tlsid.NewClient(key, []byte(answer.Certificate), []byte(answer.CA), time.Now); err != nil {
		return err
	}
	m.broker = client.New(token.BrokerURL, m.http())
	return nil
}

func (m *member) http() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: m.tls.Config(), MaxIdleConnsPerHost: 16}}
}

// show puts the member's card and its first advertisement.
func (m *member) show(ctx context.Context) error {
	signed, err := m.key.Sign(api.DocumentCard, api.Card{
		Cluster: m.cluster, Key: m.key.Public().String(), Number: 1, Properties: api.Properties{
			Region: "eu", Zones: []string{"a", "b"}, Architectures: []string{"amd64"}, Kubernetes: "v1.35.4",
		},
	})
	if err != nil {
		return err
	}
	if err := m.broker.PutCard(ctx, m.cluster, signed); err != nil {
		return err
	}
	m.measured = firstMeasurement()
	return m.broker.PutAdvertisement(ctx, m.cluster, m.measured)
}

// firstMeasurement is of more than will be asked for.
func firstMeasurement() api.Measurement {
	has := resources("cpu", "100000000", "memory", "1000Ti", "pods", "1000000", "ephemeral-storage", "1000Ti")
	return api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: 1}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: has, Allocatable: has, Shared: has}},
	}
}
