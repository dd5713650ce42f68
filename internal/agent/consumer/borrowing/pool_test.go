package borrowing

import (
	"slices"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// The namespaces of a VirtualNodePool are offloaded before it has a provider, and to the providers of
// its requests. These are in the agent's namespace: a label elsewhere makes no request the pool's.
func TestOffloadsForAVirtualNodePool(t *testing.T) {
	ours, liqos := api.GroupVersion, offv1beta1.SchemeGroupVersion
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: ours, Kind: "ResourceRequest", Resource: "resourcerequests", Namespaced: true, Status: true},
		{GroupVersion: ours, Kind: "VirtualNodePool", Resource: "virtualnodepools", Status: true},
		{GroupVersion: ours, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
		{GroupVersion: liqos, Kind: "NamespaceOffloading", Resource: "namespaceoffloadings", Namespaced: true},
		{GroupVersion: liqos, Kind: "VirtualNode", Resource: "virtualnodes", Namespaced: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, ledger := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	b := New(Options{
		Client: c, Reader: c, Market: ledger, Peering: &peering.Consumer{Cluster: "rome"}, Namespace: "bourse",
	})
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "burst"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"team", "batch"}, Max: transporttest.CPU("9")}}
	if err := c.Create(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := b.Offload(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range pool.Spec.Namespaces {
		var o offv1beta1.NamespaceOffloading
		if err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: "offloading"}, &o); err != nil {
			t.Errorf("without a provider: %v", err)
		}
	}
	size, _ := amounts.ParseRequest("", transporttest.CPU("4"))
	for provider, namespace := range map[string]string{"milan": "bourse", "oslo": "team"} {
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "burst-" + provider,
			Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}}}
		if err := c.Create(ctx, request); err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Do(ctx, market.Note{Reservation: &market.Reservation{
			ID: "at-" + provider, State: api.Active, Consumer: "rome", Provider: provider, Pool: api.GeneralPool, Size: size,
			Assignment: "assignment", Until: market.At(ledger.Now().Go().Add(time.Hour)),
			Object: &market.Object{Namespace: namespace, Name: request.Name, UID: string(request.UID)},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.loans(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string][]string{"milan": {"batch", "team"}, "oslo": nil} {
		if at, err := b.offload(ctx, all, provider); err != nil || !slices.Equal(at, want) {
			t.Errorf("at %s: %v, %v; want %v", provider, at, err, want)
		}
	}
	i := slices.IndexFunc(all, func(l bound) bool { return l.Provider == "milan" })
	milan := []bound{all[i]}
	half, _ := amounts.ParseRequest("", transporttest.CPU("2"))
	milan[0].request.Annotations = map[string]string{vnp.WishAnnotation: vnp.WriteWish(half)}
	if wish := wishOf(milan); !wish.Equal(half) || drains(milan) {
		t.Errorf("it wishes for %v, and drains: %v", wish, drains(milan))
	}
	milan[0].request.Annotations = map[string]string{
		vnp.DrainAnnotation: "true", vnp.WishAnnotation: vnp.WriteWish(size.Plus(size)),
	}
	if wish := wishOf(milan); !wish.Equal(size) || !drains(milan) || drains(nil) {
		t.Errorf("it wishes for %v, and drains: %v", wish, drains(milan))
	}

	// One reservation succeeds another: both are there, then the request of the first is gone. The virtual
	// node keeps its size.
	milan[0].request.Annotations = nil
	both, gone := []bound{milan[0], milan[0]}, milan[0]
	gone.request, gone.pool = nil, nil
	users := bound{Reservation: gone.Reservation, request: milan[0].request}
	for what, c := range map[string]struct {
		loans []bound
		want  amounts.List
	}{
		"two of a pool": {both, size}, "the first one ends": {[]bound{gone, milan[0]}, size},
		"a user's beside it": {[]bound{milan[0], users}, size.Plus(size)}, "two of users": {[]bound{users, users}, size.Plus(size)},
	} {
		if wish := wishOf(c.loans); !wish.Equal(c.want) || drains(c.loans) {
			t.Errorf("%s: it wishes for %v, want %v", what, wish, c.want)
		}
	}
}
