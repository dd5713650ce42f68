// Package guard protects a provider from the pods of brokered consumers. In each namespace that
// Liqo makes for such a consumer, it sets the pod security level, a ResourceQuota, a LimitRange and a
// NetworkPolicy. The admission policy on pods rejects pods until the namespace has them.
package guard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

// Guard guards namespaces.
type Guard struct {
	client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Sharing is the policy in force; nil: the defaults.
	Sharing func() *api.Sharing
	// Plain reports whether a consumer of a peering made by hand is guarded. If it is not, waits says
	// whether it will be.
	Plain func(consumer string) (guarded, waits bool)
	// Storage returns the bytes of volumes that a consumer has reserved here, in all pools together.
	Storage func(ctx context.Context, consumer string) (int64, error)
	// Granted returns the resources that a consumer is granted here, in all pools together, with its
	// number of pods.
	Granted func(ctx context.Context, consumer string) (api.Resources, error)
}

const (
	// name is the name of each object that guards a namespace.
	name = "bourse"
	// Label marks a guarded namespace. The admission policy on pods requires it.
	Label = api.Group + "/guarded"
	// tenantLabel is the customer of a hub to whom a namespace belongs, as the namespace's name says.
	tenantLabel = api.Group + "/tenant"

	podSecurity = "pod-security.kubernetes.io/enforce"
)

// Mapped reports whether Liqo made a namespace for another cluster's namespace.
func Mapped(o client.Object) bool {
	return liqo.Peer(o) != "" && o.GetAnnotations()[consts.RemoteNamespaceManagedByAnnotationKey] != ""
}

// Reconcile guards one namespace.
func (g *Guard) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	if err := g.Get(ctx, client.ObjectKey{Name: request.Name}, &ns); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !Mapped(&ns) {
		return ctrl.Result{}, nil
	}
	if ns.DeletionTimestamp != nil {
		return g.speedUpDeletion(ctx, &ns)
	}
	brokered, err := g.brokered(ctx, liqo.Peer(&ns))
	if err != nil {
		return ctrl.Result{}, err
	}
	if guarded, waits := g.Plain(liqo.Peer(&ns)); !brokered && !guarded {
		if waits {
			return ctrl.Result{RequeueAfter: liqo.GuardEvery}, nil
		}
		return ctrl.Result{}, nil
	}
	reached, err := network.Reached(ctx, g.Client, liqo.Peer(&ns), false)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, o := range Objects(&ns, g.Sharing(), reached...) {
		if q, ok := o.(*corev1.ResourceQuota); ok {
			if err := errors.Join(g.store(ctx, &ns, q), g.count(ctx, &ns, q)); err != nil {
				return ctrl.Result{}, err
			}
		}
		if err := g.ensure(ctx, o); err != nil {
			return ctrl.Result{}, err
		}
	}
	labels := map[string]string{podSecurity: string(policyOf(g.Sharing()).PodSecurity), Label: "true"}
	if tenant := liqo.TenantOf(ns.Name, liqo.Peer(&ns)); tenant != "" {
		labels[tenantLabel] = tenant
	}
	err = kubeobject.Change(ctx, g.Client, &ns, func() { maps.Copy(ns.Labels, labels) })
	return ctrl.Result{}, err
}

// soon is the interval at which Kubernetes checks a namespace that is being deleted.
const soon = 15 * time.Second

// speedUpDeletion makes Kubernetes check a namespace that is being deleted. By itself, Kubernetes waits half of
// the longest grace period of a pod there. With a consumer's pods that can be half an hour, even if
// they have ended.
func (g *Guard) speedUpDeletion(ctx context.Context, ns *corev1.Namespace) (ctrl.Result, error) {
	if ns.Labels[Label] != "true" {
		return ctrl.Result{}, nil
	}
	wait, err := liqo.Touch(ctx, g.Client, ns, ns.DeletionTimestamp.Time, soon)
	return ctrl.Result{RequeueAfter: wait}, err
}

// Objects returns the objects that guard a namespace. reached are the addresses of the peer's own
// pods, if there is a network with it.
func Objects(ns *corev1.Namespace, sharing *api.Sharing, reached ...string) []client.Object {
	want := policyOf(sharing)
	return []client.Object{quota(ns.Name, want), limits(ns.Name), isolation(ns, want, reached)}
}

// brokered reports whether we made the peering with a consumer.
func (g *Guard) brokered(ctx context.Context, consumer string) (bool, error) {
	var tenants authv1beta1.TenantList
	err := g.List(ctx, &tenants, liqo.Of(consumer), client.MatchingLabels(liqo.Managed()))
	return len(tenants.Items) > 0, err
}

// policyOf returns the namespace policy of a SharingPolicy, with the defaults.
func policyOf(sharing *api.Sharing) api.NamespacePolicy {
	var p api.NamespacePolicy
	if sharing != nil && sharing.Namespaces != nil {
		p = *sharing.Namespaces
	}
	p.PodSecurity = cmp.Or(p.PodSecurity, api.PodSecurityBaseline)
	p.Network = cmp.Or(p.Network, api.NetworkIsolated)
	quota := api.Resources{
		corev1.ResourceServicesLoadBalancers:  resource.MustParse("0"),
		corev1.ResourceServicesNodePorts:      resource.MustParse("0"),
		corev1.ResourceServices:               resource.MustParse("100"),
		corev1.ResourcePersistentVolumeClaims: resource.MustParse("20"),
		corev1.ResourceRequestsStorage:        resource.MustParse("200Gi"),
		"count/ingresses.networking.k8s.io":   resource.MustParse("0"),
		countSecrets:                          resource.MustParse("200"), countConfigMaps: resource.MustParse("200"),
		corev1.ResourcePods: resource.MustParse("1000"),
		countEndpointSlices: resource.MustParse("200"), countShadowPods: resource.MustParse("1000"),
	}
	if sharing != nil && slices.ContainsFunc(sharing.Pools, func(p api.PoolPolicy) bool { return p.Storage != nil }) {
		quota[corev1.ResourceRequestsStorage] = resource.MustParse("0") // only reservations grant storage
	}
	maps.Copy(quota, p.Quota)
	p.Quota = quota
	return p
}

// ensure creates or updates an object.
func (g *Guard) ensure(ctx context.Context, want client.Object) error {
	have := want.DeepCopyObject().(client.Object)
	if err := g.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		return client.IgnoreAlreadyExists(g.Create(ctx, want))
	}
	return kubeobject.Change(ctx, g.Client, have, func() {
		switch want := want.(type) {
		case *corev1.ResourceQuota:
			have.(*corev1.ResourceQuota).Spec = want.Spec
		case *corev1.LimitRange:
			have.(*corev1.LimitRange).Spec = want.Spec
		case *networkingv1.NetworkPolicy:
			have.(*networkingv1.NetworkPolicy).Spec = want.Spec
		}
	})
}

func object(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: liqo.Managed()}
}

// quota limits the objects that no reservation counts.
func quota(namespace string, p api.NamespacePolicy) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: object(namespace),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList(p.Quota)}}
}

// limits gives default requests to containers without any, so that every container is counted.
func limits(namespace string) *corev1.LimitRange {
	some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("16Mi")}
	return &corev1.LimitRange{ObjectMeta: object(namespace), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, DefaultRequest: some},
	}}}
}

// private lists the networks of a provider's own services, and the address of clouds' metadata
// services. private6 lists those of IPv6, with the ranges that gateways translate to IPv4 (NAT64, 6to4).
var (
	private  = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"}
	private6 = []string{"fc00::/7", "fe80::/10", "::1/128", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"}
)

// except returns the networks of one address family that pods must not reach.
func except(private []string, p api.NamespacePolicy, family func(netip.Addr) bool) []string {
	out := slices.Clone(private)
	for _, cidr := range p.Except {
		if network, err := netip.ParsePrefix(cidr); err == nil && family(network.Addr()) && !slices.Contains(out, cidr) {
			out = append(out, cidr)
		}
	}
	return out
}

// isolation allows pods to reach each other, pods of the same consumer in its other namespaces and,
// through a network, in its own cluster, DNS, and the internet. Only the first three may reach them.
// Of a hub's namespaces, only those of one customer reach each other.
func isolation(ns *corev1.Namespace, p api.NamespacePolicy, reached []string) *networkingv1.NetworkPolicy {
	n := &networkingv1.NetworkPolicy{ObjectMeta: object(ns.Name)}
	n.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	if p.Network == api.NetworkOpen {
		n.Spec.Ingress, n.Spec.Egress = []networkingv1.NetworkPolicyIngressRule{{}},
			[]networkingv1.NetworkPolicyEgressRule{{}}
		return n
	}
	same := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		consts.RemoteClusterID: liqo.Peer(ns), Label: "true",
	}}}
	if tenant := liqo.TenantOf(ns.Name, liqo.Peer(ns)); tenant != "" {
		same.NamespaceSelector.MatchLabels[tenantLabel] = tenant
	}
	dns := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		corev1.LabelMetadataName: metav1.NamespaceSystem,
	}}}
	udp, tcp, port := corev1.ProtocolUDP, corev1.ProtocolTCP, intstr.FromInt32(53)
	own := []networkingv1.NetworkPolicyPeer{same}
	for _, cidr := range reached {
		own = append(own, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	n.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: own}}
	n.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{
		{To: own},
		{To: []networkingv1.NetworkPolicyPeer{dns}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: &port},
			{Protocol: &tcp, Port: &port}}},
		{To: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: except(private, p, netip.Addr.Is4)}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: except(private6, p, netip.Addr.Is6)}},
		}},
	}
	return n
}
