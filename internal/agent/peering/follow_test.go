package peering

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// A reservation creates a Peering, unless the other cluster's agent is a prototype, which knows no handshake.
func TestPeeringsWithALegacyCluster(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "Peering", Resource: "peerings", Namespaced: true, Status: true}}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, x := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	p := New(Options{Client: c, Namespace: "default", Market: x, Trigger: &kubeobject.Trigger{}})
	for _, pin := range []market.Pin{{Cluster: "cluster-1", Key: "the broker's", Legacy: true},
		{Cluster: "rome", Key: "rome's"}} {
		if _, err := x.Do(ctx, pin); err != nil {
			t.Fatal(err)
		}
		if err := p.Follow(ctx, &market.Reservation{ID: "r", Consumer: pin.Cluster,
			Provider: "milan", State: api.Reserved}); err != nil {
			t.Fatal(err)
		}
		err := c.Get(ctx, client.ObjectKey{Namespace: "default",
			Name: api.PeeringName(pin.Cluster, api.RoleConsumer)}, &api.Peering{})
		if apierrors.IsNotFound(err) != pin.Legacy {
			t.Errorf("the peering with %s: %v", pin.Cluster, err)
		}
	}
}
