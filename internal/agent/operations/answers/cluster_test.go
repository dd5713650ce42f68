package answers

import (
	"context"
	"testing"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/catalog"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// agent is what the rest of the agent does for users, as far as these tests need it.
type agent struct {
	Gate
	Doctor
	key      *clusterkey.Key
	disowned []string
	volumes  *api.Volumes        // at stake
	pods     map[string][]string // by node
}

func (a *agent) Key() *clusterkey.Key                                          { return a.key }
func (a *agent) URL() string                                                   { return "https://broker" }
func (a *agent) Rotate(_ context.Context, from string) (string, error)         { return "after " + from, nil }
func (a *agent) CheckOffload(context.Context, string, *api.Offload) error      { return nil }
func (a *agent) RetryMain()                                                    {}
func (a *agent) MainState() session.State                                      { return session.State{Connected: true} }
func (a *agent) List(context.Context) ([]api.Envelope[api.KnownBroker], error) { return nil, nil }

func (a *agent) FindStickTo(context.Context, *api.ResourceRequest) ([]string, error) {
	return []string{"milan"}, nil
}

func (a *agent) FindVolumes(context.Context, *api.ResourceRequest) (*api.Volumes, error) {
	return a.volumes, nil
}

func (a *agent) EndUnknown(_ context.Context, id string) error {
	a.disowned = append(a.disowned, id)
	return nil
}

func (a *agent) PlanPool(context.Context, *api.VirtualNodePool) (api.VirtualNodePoolStatus, error) {
	return api.VirtualNodePoolStatus{}, nil
}

func newCluster(t *testing.T) (*Cluster, *agent) {
	t.Helper()
	var types []kubeapi.Type
	for kind, resource := range map[string]string{"ResourceRequest": "resourcerequests",
		"Offer": "offers", "Peer": "peers", "Broker": "brokers", "VirtualNodePool": "virtualnodepools"} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: kind != "VirtualNodePool", Status: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: types}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{key: transporttest.NewParty(t, "rome").Key}
	return NewCluster(ClusterOptions{
		Client: c, Cluster: "rome", Namespace: "default", Ledger: exchangetest.Open(t,
			nil, exchange.Options{Self: "rome"}), Member: a,
		Sharing: func() *api.Sharing { return nil }, Gate: a, Requests: a, Brokers: a, Doctor: a,
		PodsOn: func(node string) []string { return a.pods[node] },
	}), a
}

func TestStatus(t *testing.T) {
	c, a := newCluster(t)
	s, err := c.Status(t.Context())
	if err != nil || s.Cluster != "rome" || !s.Connected || s.Broker != "https://broker" ||
		s.Fingerprint != a.key.Public().Fingerprint().String() {
		t.Errorf("it is %+v, %v", s, err)
	}
	if rotated, err := c.RotateKey(t.Context(), api.KeyRotation{From: "x"}); err != nil ||
		rotated.Fingerprint != "after x" {
		t.Errorf("rotated to %+v, %v", rotated, err)
	}
}

// oneOffer is the connector of a seller.
type oneOffer struct{}

func (oneOffer) Catalog(_ context.Context, _ api.CatalogQuery, added bool) []api.Envelope[api.Listing] {
	if added {
		return nil
	}
	return []api.Envelope[api.Listing]{{ID: "milan/web", Payload: api.Listing{Seller: "milan", Name: "web"}}}
}

// While no broker answers, the connectors of sellers show their offers.
func TestTheCatalogWithoutABroker(t *testing.T) {
	open := &session.Sessions{}
	main := session.New(session.Options{Cluster: "rome", Broker: &transporttest.Broker{}})
	main.Connection().Record(transporttest.Away)
	open.Add(main)
	b := Brokers{Clock: clock.RealClock{},
		Relay: session.Relay{Broker: main.Broker, Sessions: open}, Connectors: oneOffer{},
		Copy: catalog.New(catalog.Options{Cluster: "rome", Journal: memorytest.New()}),
	}
	if found, err := b.Catalog(t.Context(), api.CatalogQuery{}); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	if offer, err := b.Offer(t.Context(), "milan", "web"); err != nil || offer.Payload.Name != "web" {
		t.Errorf("one offer: %+v, %v", offer, err)
	}
	if _, err := b.Offer(t.Context(), "milan", "other"); err == nil {
		t.Error("an offer that is not there is found")
	}
}
