package borrowing

import (
	"sync"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// pods is an Inventory of what the pods of each namespace request on any node.
type pods map[string]api.Resources

func (p pods) UsedOn(string) api.Resources {
	var sum amounts.List
	for _, used := range p {
		sum = sum.Plus(amounts.Clamp(used))
	}
	return sum.Resources()
}
func (p pods) UsedByNamespace(string, string) map[string]api.Resources { return p }
func (pods) PodsMoved() <-chan struct{}                                { return nil }

// Two providers are served at the same time, for requests that name one namespace. It is offloaded
// to both, each gets a slice, and a request that may not offload a namespace says so.
func TestServeTwoProvidersAtOnce(t *testing.T) {
	kind := func(group schema.GroupVersion, kind, name string) kubeapi.Type {
		return kubeapi.Type{GroupVersion: group, Kind: kind, Resource: name, Namespaced: true, Status: true}
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "VirtualNodePool", Resource: "virtualnodepools", Status: true},
		{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
		kind(api.GroupVersion, "ResourceRequest", "resourcerequests"), kind(api.GroupVersion,
			"ReservationInstruction", "reservationinstructions"),
		kind(authv1beta1.GroupVersion, authv1beta1.ResourceSliceKind, "resourceslices"),
		kind(networkingv1beta1.GroupVersion, "Configuration", "configurations"),
		kind(offv1beta1.SchemeGroupVersion, "NamespaceOffloading", "namespaceoffloadings"),
		kind(offv1beta1.SchemeGroupVersion, "NamespaceMap", "namespacemaps"),
		kind(offv1beta1.SchemeGroupVersion, "VirtualNode", "virtualnodes"),
		kind(offv1beta1.SchemeGroupVersion, "VkOptionsTemplate", "vkoptionstemplates"),
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, ledger := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	create(&offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
		Name: "virtual-kubelet-default"}})
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closed"}})
	providers := []string{"milan", "paris"}
	for _, provider := range providers {
		create(liqo.NewTenantNamespace(provider))
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: provider}}
		request.Spec.Offload = &api.Offload{Namespaces: []string{"work", "closed"}}
		create(request)
		create(&api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "at-" + provider}})
		size, err := amounts.ParseRequest("", transporttest.CPU("1"))
		if err != nil {
			t.Fatal(err)
		}
		note := market.Note{Reservation: &market.Reservation{
			ID: "at-" +
				provider, State: api.Reserved, Consumer: "rome", Provider: provider, Pool: api.GeneralPool, Size: size, Assignment: "assignment",
			Until:  market.At(ledger.Now().Go().Add(time.Hour)),
			Object: &market.Object{Namespace: "work", Name: provider, UID: string(request.UID)},
		}}
		if _, err := ledger.Do(ctx, note); err != nil {
			t.Fatal(err)
		}
	}
	b := New(Options{
		Client: c, Reader: c, Market: ledger, Relay: &transporttest.Broker{}, Inventory: pods{}, Graces: grant.Graces{Shrink: time.Minute, Excess: time.Minute},
		Peering: &peering.Consumer{Client: c, Cluster: "rome", LiqoNamespace: "liqo"}, Network: &network.Network{Client: c,
			Reader: c, Cluster: "rome"},
		Slices: &offload.Slices{Client: c, Reader: c, LiqoNamespace: "liqo"},
	})
	var served sync.WaitGroup
	for _, provider := range providers {
		served.Go(func() {
			for range 5 {
				if waits, err := b.Serve(ctx, provider); err != nil || waits == "" {
					t.Errorf("%s: it waits for %q, %v", provider, waits, err)
				}
			}
		})
	}
	served.Wait()
	var offloading offv1beta1.NamespaceOffloading
	if err := c.Get(ctx, client.ObjectKey{Namespace: "work", Name: "offloading"}, &offloading); err != nil {
		t.Fatal(err)
	}
	terms := offloading.Spec.ClusterSelector.NodeSelectorTerms
	if want := offload.NewOffloading(offload.Use{Namespace: "work",
		Providers: providers}).Spec.ClusterSelector.NodeSelectorTerms; len(terms) != len(want) {
		t.Errorf("it is offloaded to %+v, want %+v", terms, want)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "closed", Name: "offloading"},
		&offloading); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a namespace that no request may offload: %v", err)
	}
	for _, provider := range providers {
		if have, err := b.options.Slices.Names(ctx, provider); err != nil || len(have) != 1 {
			t.Errorf("with %s there are the slices %v, %v", provider, have, err)
		}
		var i api.ReservationInstruction
		if err := c.Get(ctx, client.ObjectKey{Namespace: "work", Name: "at-" + provider}, &i); err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOffloaded); c == nil ||
			c.Reason != string(api.CodeForbidden) {
			t.Errorf("the condition is %+v, want %s", c, api.CodeForbidden)
		}
	}
}

// A request whose namespace cannot be offloaded keeps no other request of the account from being
// shown as offloaded.
func TestAwaitNamespacesOfEachRequest(t *testing.T) {
	kind := func(group schema.GroupVersion, kind, name string) kubeapi.Type {
		return kubeapi.Type{GroupVersion: group, Kind: kind, Resource: name, Namespaced: true, Status: true}
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		kind(api.GroupVersion, "ReservationInstruction", "reservationinstructions"),
		kind(offv1beta1.SchemeGroupVersion, "NamespaceOffloading", "namespaceoffloadings"),
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var loans []bound
	for _, name := range []string{"gone", "refused", "good"} {
		r := &market.Reservation{ID: name, Provider: "milan", Object: &market.Object{Namespace: name, Name: name}}
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
		request.Spec.Offload = &api.Offload{Namespaces: []string{name}}
		loans = append(loans, bound{Reservation: r, request: request})
		if err := c.Create(ctx, &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: name,
			Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	ready := offload.NewOffloading(offload.Use{Namespace: "good", Providers: []string{"milan"}})
	if err := c.Create(ctx, ready); err != nil {
		t.Fatal(err)
	}
	ready.Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{
		"milan": {{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue}},
	}
	if err := c.Status().Update(ctx, ready); err != nil {
		t.Fatal(err)
	}
	b := New(Options{Client: c, Reader: c, Peering: &peering.Consumer{Client: c, Cluster: "rome"}})
	waits, err := b.awaitNamespaces(ctx, loans)
	if err != nil || waits != "namespace gone is not offloaded yet" {
		t.Errorf("it waits for %q, %v", waits, err)
	}
	var i api.ReservationInstruction
	if err := c.Get(ctx, client.ObjectKey{Namespace: "good", Name: "good"}, &i); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{api.ConditionOffloaded, api.ConditionPodsComply} {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, shown) {
			t.Errorf("%s is not True: %+v", shown, i.Status.Conditions)
		}
	}
}
