package network

import (
	"context"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// private lists the networks that pods may be in. With any other, a peer could attract traffic that
// is meant for the internet.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fc00::/7"),
}

// describeNetworks returns the first message of this cluster: its networks.
// Errors: Unavailable if Liqo has no networks yet.
func (n *Network) describeNetworks(ctx context.Context) (*api.HandshakeNetwork, error) {
	var list ipamv1alpha1.NetworkList
	if err := n.Reader.List(ctx, &list, client.InNamespace(n.LiqoNamespace)); err != nil {
		return nil, err
	}
	say := &api.HandshakeNetwork{Reachable: n.Gateway.Serves()}
	for _, network := range list.Items {
		cidr := string(network.Status.CIDR)
		kind := consts.NetworkType(network.Labels[consts.NetworkTypeLabelKey])
		if kind != consts.NetworkTypePodCIDR && kind != consts.NetworkTypeExternalCIDR {
			continue
		}
		if cidr == "" {
			return nil, api.Errorf(api.CodeUnavailable, "Liqo has not reserved network %s yet", network.Name).
				Fix("check that Liqo's IPAM runs")
		}
		if kind == consts.NetworkTypePodCIDR {
			say.PodCIDRs = append(say.PodCIDRs, cidr)
		} else {
			say.ExternalCIDRs = append(say.ExternalCIDRs, cidr)
		}
	}
	if len(say.PodCIDRs) == 0 || len(say.ExternalCIDRs) != 1 {
		return nil, api.Errorf(api.CodeUnavailable, "namespace %s has %d Networks of pods and %d external ones",
			n.LiqoNamespace, len(say.PodCIDRs), len(say.ExternalCIDRs)).
			Fix("install Liqo with networking.enabled")
	}
	return say, nil
}

// foreign rejects ranges that contain addresses of our nodes: pods here would send their packets for
// these nodes to the peer. A virtual node has the address of a pod, its virtual kubelet's, and Liqo maps pods.
func (n *Network) foreign(ctx context.Context, peer string, network *api.HandshakeNetwork) error {
	var ranges []netip.Prefix
	for _, text := range slices.Concat(network.PodCIDRs, network.ExternalCIDRs) {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		ranges = append(ranges, cidr)
	}
	var nodes corev1.NodeList
	for begin := true; begin || nodes.Continue != ""; begin = false {
		if err := n.Reader.List(ctx, &nodes, client.Limit(500), client.Continue(nodes.Continue)); err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if node.Labels[consts.TypeLabel] == consts.TypeNode {
				continue
			}
			for _, a := range node.Status.Addresses {
				address, err := netip.ParseAddr(a.Address)
				if i := slices.IndexFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) }); err == nil && i >= 0 {
					return api.Errorf(api.CodeBadSignature,
						"%s names %s as a network of its pods, but it contains node %s of this cluster", peer, ranges[i], node.Name).
						Fix("give one of the two clusters other addresses, and name yours in Liqo's ipam.reservedSubnets")
				}
			}
		}
	}
	return nil
}

// check rejects an invalid message about a peer's network. Errors: BadSignature.
func check(peer string, network *api.HandshakeNetwork) error {
	for _, list := range [][]string{network.PodCIDRs, network.ExternalCIDRs} {
		if len(list) == 0 || len(list) > 16 {
			return api.Errorf(api.CodeBadSignature, "%s names %d networks, not 1 to 16", peer, len(list))
		}
		for _, cidr := range list {
			p, err := netip.ParsePrefix(cidr)
			if err != nil || p.Masked() != p || !slices.ContainsFunc(private,
				func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) }) {
				return api.Errorf(api.CodeBadSignature,
					"%s names %.60q as a network of its pods, which is not a private network", peer, cidr)
			}
		}
	}
	if len(network.PublicKey) != 0 && len(network.PublicKey) != 32 {
		return api.Errorf(api.CodeBadSignature, "the public key of %s's gateway has %d bytes, not 32",
			peer, len(network.PublicKey))
	}
	if p := network.Proxy; p != nil && (len(p.Addresses) != 1 || p.Port <= 0 || p.Port >= 1<<16) {
		return api.Errorf(api.CodeBadSignature, "the proxy of %s needs one address and a port from 1 to 65535", peer)
	}
	e := network.Endpoint
	if e == nil {
		return nil
	}
	fits := len(e.Addresses) > 0 && len(e.Addresses) <= 8 && e.Port > 0 && e.Port < 1<<16 &&
		(e.Protocol == string(corev1.ProtocolUDP) || e.Protocol == string(corev1.ProtocolTCP))
	for _, a := range e.Addresses {
		_, err := netip.ParseAddr(a)
		fits = fits && (err == nil || len(validation.IsDNS1123Subdomain(a)) == 0)
	}
	if !fits {
		return api.Errorf(api.CodeBadSignature,
			"the endpoint of %s's gateway needs 1 to 8 addresses, a port from 1 to 65535, and UDP or TCP", peer)
	}
	return nil
}
