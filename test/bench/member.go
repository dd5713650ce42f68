package main

import (
	"context"
	"net/http"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// member is a cluster with a key and a certificate of its own.
type member struct {
	cluster string
	key     *clusterkey.Key
	tls     *tlsid.Client
	broker  *client.Client
	address string // of the broker, HOST:PORT
	// measured is its first advertisement.
	measured api.Measurement
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
