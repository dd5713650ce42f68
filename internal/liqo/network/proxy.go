package network

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Consumers reach a provider's API server through the network with Liqo's own proxy (HTTP CONNECT), a
// Service in Liqo's namespace. Liqo gives it an address in the external CIDR (the IP
// "api-server-proxy"). The consumer's Liqo may map that to another address. liqoctl computes the
// result with both kubeconfigs. Here the provider sends the address, and the consumer maps it.

// carried marks a network that carries the peering itself: it is removed last.
const carried = "api-server"

// Proxy returns the endpoint of the proxy to this cluster's API server, with this cluster's own
// address. Errors: Unavailable if Liqo has no proxy or has not given it an address.
func (n *Network) Proxy(ctx context.Context) (*api.HandshakeEndpoint, error) {
	var ips ipamv1alpha1.IPList
	if err := n.Reader.List(ctx, &ips, client.InNamespace(n.LiqoNamespace),
		client.MatchingLabels{consts.IPTypeLabelKey: consts.IPTypeAPIServerProxy}); err != nil {
		return nil, err
	}
	var services corev1.ServiceList
	if err := n.Reader.List(ctx, &services, client.InNamespace(n.LiqoNamespace),
		client.MatchingLabels{consts.K8sAppNameKey: consts.APIServerProxyAppName}); err != nil {
		return nil, err
	}
	if len(ips.Items) != 1 || ips.Items[0].Status.IP == "" || len(services.Items) != 1 ||
		len(services.Items[0].Spec.Ports) == 0 {
		return nil, api.Errorf(api.CodeUnavailable, "Liqo's proxy to the API server has no address in the network").
			Fix("install Liqo with networking.enabled and proxy.enabled, and check that its IPAM runs: kubectl -n %s get "+
				"ips,services", n.LiqoNamespace)
	}
	return &api.HandshakeEndpoint{
		Addresses: []string{string(ips.Items[0].Status.IP)}, Port: services.Items[0].Spec.Ports[0].Port,
		Protocol: string(corev1.ProtocolTCP),
	}, nil
}

// ProxyOf returns the URL of the proxy to a provider's API server, as this cluster reaches it. It is
// empty until the network is ready and the provider has sent the address.
func (n *Network) ProxyOf(ctx context.Context, provider string, network *api.HandshakeNetwork) (string, error) {
	if network == nil || network.Over || network.Proxy == nil {
		return "", nil
	}
	if err := check(provider, network); err != nil {
		return "", err
	}
	p, err := n.read(ctx, provider)
	if err != nil || p.going || p.configuration == nil || !configured(p.configuration) ||
		!p.connected(provider, State{}).Ready {
		return "", err
	}
	address, err := mapped(p.configuration, network.Proxy.Addresses[0])
	if err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(address.String(), strconv.Itoa(int(network.Proxy.Port))), nil
}

// mapped translates an address in a peer's external CIDR to the one that this cluster uses.
// Errors: BadSignature.
func mapped(c *networkingv1beta1.Configuration, address string) (netip.Addr, error) {
	parsed, _ := netip.ParseAddr(address) // no prefix contains an invalid address
	remote, local := c.Spec.Remote.CIDR.External, c.Status.Remote.CIDR.External
	for i := range min(len(remote), len(local)) {
		from, err := netip.ParsePrefix(string(remote[i]))
		if err != nil || !from.Contains(parsed) {
			continue
		}
		to, err := netip.ParsePrefix(string(local[i]))
		if err != nil || to.Bits() != from.Bits() || to.Addr().BitLen() != parsed.BitLen() {
			break
		}
		bytes, net := parsed.AsSlice(), to.Masked().Addr().AsSlice()
		for bit := range to.Bits() {
			mask := byte(0x80) >> (bit % 8)
			bytes[bit/8] = bytes[bit/8]&^mask | net[bit/8]&mask
		}
		out, _ := netip.AddrFromSlice(bytes)
		return out, nil
	}
	return parsed, api.Errorf(api.CodeBadSignature,
		"the proxy of %s has address %.60q, which is not among its external addresses",
		c.Labels[consts.RemoteClusterID], address)
}

// Carry records that the network carries the peering with a cluster in a role.
func (n *Network) Carry(ctx context.Context, peer string, role api.PeeringRole) error {
	p, err := n.read(ctx, peer)
	if err != nil || p.byHand || p.configuration == nil {
		return err
	}
	return kubeobject.Change(ctx, n.Client, p.configuration, func() {
		metav1.SetMetaDataAnnotation(&p.configuration.ObjectMeta, neededBy(role), carried)
	})
}

// Carries reports whether it does. If so, the network lasts as long as the peering.
func (n *Network) Carries(ctx context.Context, peer string, role api.PeeringRole) (bool, error) {
	p, err := n.read(ctx, peer)
	if err != nil || p.byHand || p.configuration == nil {
		return false, err
	}
	return p.configuration.Annotations[neededBy(role)] == carried, nil
}
