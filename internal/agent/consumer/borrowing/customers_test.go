package borrowing

import (
	"slices"
	"strings"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// newOffloads returns a client of an API server that knows what offloads namespaces, and more kinds.
func newOffloads(t *testing.T, more ...kubeapi.Type) client.Client {
	t.Helper()
	kinds := append(more, kubeapi.Type{
		GroupVersion: api.GroupVersion, Kind: "VirtualNodePool", Resource: "virtualnodepools", Status: true})
	for kind, name := range map[string]string{"NamespaceOffloading": "namespaceoffloadings",
		"NamespaceMap": "namespacemaps", "VirtualNode": "virtualnodes"} {
		kinds = append(kinds, kubeapi.Type{
			GroupVersion: offv1beta1.SchemeGroupVersion, Kind: kind, Resource: name, Namespaced: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: kinds}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A hub offloads the namespaces of its customers to the providers of the selected virtual nodes, never to
// the customer itself, and of nobody else. It goes on without the policy. It ends what the customer ended.
func TestOffloadsForCustomers(t *testing.T) {
	c := newOffloads(t,
		kubeapi.Type{GroupVersion: api.GroupVersion, Kind: "ResourceRequest", Resource: "resourcerequests", Namespaced: true,
			Status: true},
		kubeapi.Type{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
		kubeapi.Type{GroupVersion: corev1.SchemeGroupVersion, Kind: "PersistentVolumeClaim",
			Resource: "persistentvolumeclaims", Namespaced: true})
	ctx, ledger := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "hub"})
	create := func(all ...client.Object) {
		t.Helper()
		for _, o := range all {
			if err := c.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	selector := map[string]string{"lent": "on"}
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: api.Sharing{
		Pools: []api.PoolPolicy{{Name: "general",
			VirtualNodes: &api.VirtualNodes{Selector: api.VirtualNodeSelector{MatchLabels: selector}}}},
	}}
	policy.Spec.Pools[0].PlainConsumers = []api.PlainConsumer{{Cluster: "nice", Slice: "rented"}} // has no reservation
	create(policy)
	for _, provider := range []string{"milan", "rome", "oslo", "ended"} {
		on := map[string]string{consts.RemoteClusterID: provider, consts.TypeLabel: consts.TypeNode, "lent": "on"}
		if provider == "oslo" {
			delete(on, "lent")
		}
		create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "at-" + provider, Labels: on}})
		if provider == "ended" {
			continue
		}
		if _, err := ledger.Do(ctx, market.Note{Reservation: &market.Reservation{
			ID: "at-" + provider, State: api.Active, Consumer: "hub", Provider: provider, Pool: api.GeneralPool,
			Relend: true, Assignment: "assignment", Until: market.At(ledger.Now().Go().Add(time.Hour)),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, customer := range []string{"rome", "bern"} {
		key := transporttest.NewParty(t, customer).Key.Public().String()
		if _, err := ledger.Do(ctx, market.Pin{Cluster: customer, Key: key}); err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Do(ctx, market.Admit{
			Adopt: true, Document: customer, Acceptance: "acceptance", Size: amounts.List{{Resource: "cpu", Value: 1000}},
			BindsUntil: market.At(ledger.Now().Go().Add(time.Minute)),
			Assignment: api.Assignment{Reservation: "of-" + customer, Consumer: customer, Provider: "hub", Pool: "general",
				Generation: 1, Until: transporttest.Seconds(ledger.Now().Go().Add(time.Hour))},
		}); err != nil {
			t.Fatal(err)
		}
	}
	mapped := func(name, of string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: liqo.Of(of),
			Annotations: map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "a/b"}}}
	}
	guarded := mapped("shop-nice", "nice")
	guarded.Labels = liqo.Of("nice")
	guarded.Labels[guard.Label] = "true"
	create(guarded, mapped("early-nice", "nice"), mapped("shop-rome", "rome"), mapped("web-rome", "rome"),
		mapped("shop-bern", "bern"), mapped("shop-nobody", "nobody"),
		mapped("agg-aaaaaaaa-bbbbbbbb-bern", "bern"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}})
	b := New(Options{Client: c, Reader: c, Market: ledger, Peering: &peering.Consumer{Cluster: "hub"},
		Slices: &offload.Slices{Client: c, Reader: c}, Graces: grant.Graces{Shrink: time.Hour}})
	runsAt := func(when string, want map[string][]string) {
		t.Helper()
		all, err := b.loans(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for provider, namespaces := range want {
			if at, err := b.offload(ctx, all, provider); err != nil || !slices.Equal(at, namespaces) {
				t.Errorf("%s, at %s: %v, %v; want %v", when, provider, at, err, namespaces)
			}
		}
	}
	runsAt("with a policy", map[string][]string{
		"milan": {"shop-bern", "shop-nice", "shop-rome", "web-rome"}, "rome": {"shop-bern", "shop-nice"}, "oslo": nil, "ended": nil,
	})
	tenants := map[string]string{}
	for _, name := range []string{"shop-rome", "web-rome", "shop-bern"} {
		var o offv1beta1.NamespaceOffloading
		if err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: "offloading"}, &o); err != nil {
			t.Fatal(err)
		}
		tenants[name] = liqo.TenantOf(o.Spec.RemoteNamespaceName, "hub")
		not := o.Spec.ClusterSelector.NodeSelectorTerms[0].MatchExpressions[1]
		_, customer, _ := strings.Cut(name, "-")
		if not.Operator != corev1.NodeSelectorOpNotIn || not.Values[0] != customer ||
			o.Spec.PodOffloadingStrategy != offv1beta1.RemotePodOffloadingStrategyType {
			t.Errorf("%s: %+v", name, o.Spec)
		}
	}
	if tenants["shop-rome"] == "" || tenants["shop-rome"] != tenants["web-rome"] || tenants["shop-rome"] == tenants["shop-bern"] {
		t.Errorf("the tenants are %v", tenants)
	}

	if err := c.Delete(ctx, policy); err != nil {
		t.Fatal(err)
	}
	create(&offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "at-milan"},
		Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", Labels: map[string]string{offload.Label("shop-rome"): "true"}}})
	create(mapped("new-rome", "rome"))
	runsAt("without a policy", map[string][]string{"milan": {"shop-rome"}, "rome": nil})
	gone, err := b.namespaces.Gone(ctx, []string{"shop-rome", "own", "never-was"})
	if err != nil || !slices.Equal(gone, []string{"never-was"}) {
		t.Errorf("gone are %v, %v", gone, err)
	}
	// A provider that an admin peered with by hand takes part while the policy names its virtual node. It
	// leaves in order: cordon, no pod, no label, and then the admin's own pods may use it again.
	own := offload.Label("own")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "at-plain", Labels: map[string]string{
		consts.RemoteClusterID: "plain", consts.TypeLabel: consts.TypeNode, "lent": "on"}}}
	virtual := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-plain", Name: node.Name},
		Spec: offv1beta1.VirtualNodeSpec{ClusterID: "plain", Labels: map[string]string{own: "true"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web"}, Spec: corev1.PodSpec{
		NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	policy = &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: policy.Spec}
	policy.Spec.Pools[0].VirtualNodes.ByHand = []api.HandMadeNode{{Node: node.Name}}
	create(policy, node, virtual, pod)
	look := func(when string, labels int, cordoned bool) {
		t.Helper()
		if _, err := b.Reconcile(ctx, ctrl.Request{}); err != nil {
			t.Fatal(when, err)
		}
		for _, o := range []client.Object{node, virtual} {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
		}
		if len(virtual.Spec.Labels) != 1+labels || virtual.Spec.Labels[own] == "" || node.Spec.Unschedulable != cordoned {
			t.Errorf("%s: labels %v, cordoned %t", when, virtual.Spec.Labels, node.Spec.Unschedulable)
		}
	}
	look("named", 5, false)
	policy.Spec.Pools[0].VirtualNodes.ByHand = nil
	if err := c.Update(ctx, policy); err != nil {
		t.Fatal(err)
	}
	look("no longer named", 5, true)
	look("a pod is there", 5, true)
	if err := client.IgnoreNotFound(c.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
		t.Fatal(err)
	}
	look("empty", 0, true)
	look("gone", 0, false)
}
