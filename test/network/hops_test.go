package network

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

var twoHops = flag.Bool("two-hops", false, "measure what docs/liqo.md says of two networks")

// What docs/liqo.md says of a path through two networks: the addresses of a pod that rome offloads to a hub and the
// hub to milan; and how fast packets are from rome to milan in the underlay, through one network, and through two.
func TestTwoHops(t *testing.T) {
	if !*twoHops {
		t.Skip("measures; run it with -two-hops")
	}
	w := start(t, "hub")
	hub := w.Members[2]
	toHub := &world{w.Federation, w.machine, w.rome, hub}
	fromHub := &world{w.Federation, w.machine, hub, w.milan}
	for _, leg := range []struct {
		*world
		name string
	}{{w, "direct"}, {toHub, "nested"}, {fromHub, "relay"}} {
		leg.becomes(t, leg.borrow(t, leg.name), api.Active)
	}
	here := w.serve(t, w.rome, "direct", "here", false)
	near := w.serve(t, w.rome, "direct", "near", true)
	w.answers(t, here, near.Status.PodIP+":8080", "near")

	w.relays(t, hub, "nested-rome")
	far := toHub.serve(t, w.rome, "nested", "far", true)
	t.Logf("rome's pod has at rome the address %s", far.Status.PodIP)
	last := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nested-rome", Name: "far"}}
	w.ready(t, hub, last)
	t.Logf("at the hub it is on node %s and has the address %s", last.Spec.NodeName, last.Status.PodIP)
	last.Namespace = "nested-rome-hub"
	w.ready(t, w.milan, last)
	t.Logf("at milan it is on node %s and has the address %s", last.Spec.NodeName, last.Status.PodIP)
	out, err := w.in(t.Context(), string(here.UID), "get http://%s:8080", far.Status.PodIP)
	t.Logf("at %s answers: %q, %v", far.Status.PodIP, out, err)
	through := w.relayed(t, hub, "nested-rome", "far")
	seen := w.answers(t, here, through+":8080", "far")
	t.Logf("at %s, the hub's external address as rome maps it, it sees %s", through, seen)
	out, err = w.in(t.Context(), string(last.UID), "get http://%s:8080", seen)
	t.Logf("back at %s answers: %q, %v", seen, out, err)

	if _, err := w.machine.Run(t.Context(), "nft insert rule ip machine forward iifname lan accept"); err != nil {
		t.Fatal(err)
	}
	w.listens(t, "node-milan", "node", w.milan.Cluster.NodeAddress()+":8080")
	for range 3 {
		underlay := w.measures(t, "node-rome", w.milan.Cluster.NodeAddress())
		one := w.measures(t, string(here.UID), near.Status.PodIP)
		two := w.measures(t, string(here.UID), through)
		t.Logf("ms, MB/s: underlay %.2f, one network %.2f, two networks %.2f", underlay, one, two)
		t.Logf("latency against the underlay: %.2f, %.2f; two networks against one: %.2f",
			one[0]/underlay[0], two[0]/underlay[0], two[0]/one[0])
		t.Logf("throughput against the underlay: %.3f, %.3f; two networks against one: %.2f",
			one[1]/underlay[1], two[1]/underlay[1], two[1]/one[1])
	}
}

// relays offloads a namespace that a consumer has at the hub on to milan, by hand.
func (w *world) relays(t *testing.T, hub *federation.Member, namespace string) {
	t.Helper()
	eventually(t, "the hub offloads "+namespace, func(ctx context.Context) error {
		return hub.Objects.Create(ctx, &offv1beta1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: consts.DefaultNamespaceOffloadingName},
			Spec: offv1beta1.NamespaceOffloadingSpec{
				NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
				PodOffloadingStrategy:    offv1beta1.RemotePodOffloadingStrategyType,
				ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: consts.RemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{"milan"},
					}},
				}}},
			},
		})
	})
}

// relayed is the address at which rome reaches a pod that the hub has offloaded: the hub's Liqo gives it one of the
// hub's external addresses, and rome's Liqo maps those.
func (w *world) relayed(t *testing.T, hub *federation.Member, namespace, pod string) (address string) {
	t.Helper()
	eventually(t, "the hub has an external address for "+pod, func(ctx context.Context) error {
		var ip ipamv1alpha1.IP
		if err := hub.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: pod}, &ip); err != nil {
			return err
		}
		var configurations networkingv1beta1.ConfigurationList
		if err := w.rome.Objects.List(ctx, &configurations, kube.InNamespace("liqo-tenant-hub")); err != nil {
			return err
		}
		if len(configurations.Items) != 1 || ip.Status.IP == "" {
			return fmt.Errorf("%d configurations, %+v", len(configurations.Items), ip.Status)
		}
		cidr := configurations.Items[0].Status.Remote.CIDR.External[0]
		net, host := strings.Split(string(cidr), "."), strings.Split(string(ip.Status.IP), ".")
		address = strings.Join([]string{net[0], net[1], host[2], host[3]}, ".")
		t.Logf("the hub's external address is %s; rome maps the hub's to %s", ip.Status.IP, cidr)
		return nil
	})
	return address
}

// measures is the time of a request in milliseconds, and the throughput in megabytes per second.
func (w *world) measures(t *testing.T, from, to string) (figures [2]float64) {
	t.Helper()
	out, err := w.in(t.Context(), from, "measure http://%s:8080/", to)
	if _, scanned := fmt.Sscan(out, &figures[0], &figures[1]); err != nil || scanned != nil {
		t.Fatalf("%s says %q, %v, %v", to, out, err, scanned)
	}
	return figures
}
