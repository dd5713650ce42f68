package network

import (
	"net/netip"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Gateway is whether a cluster takes part in networks, and how others reach its gateways.
type Gateway string

const (
	// GatewayNone takes no part.
	GatewayNone Gateway = "none"
	// GatewayOutbound dials those of others, and is not reached itself.
	GatewayOutbound     Gateway = "outbound"
	GatewayNodePort     Gateway = Gateway(corev1.ServiceTypeNodePort)
	GatewayLoadBalancer Gateway = Gateway(corev1.ServiceTypeLoadBalancer)
)

// Parse reads what an admin says; nothing is none. Errors: Invalid.
func Parse(text string) (Gateway, error) {
	switch g := Gateway(text); g {
	case "":
		return GatewayNone, nil
	case GatewayNone, GatewayOutbound, GatewayNodePort, GatewayLoadBalancer:
		return g, nil
	}
	return "", api.Invalid("--network-gateway", "%.40q is not known", text).
		Fix("say none, outbound, NodePort or LoadBalancer")
}

// Joins says whether the cluster takes part at all, Serves whether its gateways can be dialled.
func (g Gateway) Joins() bool  { return g != "" && g != GatewayNone }
func (g Gateway) Serves() bool { return g == GatewayNodePort || g == GatewayLoadBalancer }

// What Liqo's own tool uses.
const (
	port = 51840
	mtu  = 1340
)

// objectMeta is that of an object of the network with a peer. Liqo reckons with the names of
// gateways across namespaces, so that each is the peer's.
func objectMeta(namespace, peer string, labels ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: peer, Labels: liqo.Labels(peer, labels...)}
}

// NewConfiguration tells Liqo the addresses of a peer.
func NewConfiguration(namespace, peer string, heard *api.HandshakeNetwork) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: objectMeta(namespace, peer)}
	for _, cidr := range heard.PodCIDRs {
		c.Spec.Remote.CIDR.Pod = append(c.Spec.Remote.CIDR.Pod, networkingv1beta1.CIDR(cidr))
	}
	for _, cidr := range heard.ExternalCIDRs {
		c.Spec.Remote.CIDR.External = append(c.Spec.Remote.CIDR.External, networkingv1beta1.CIDR(cidr))
	}
	return c
}

// NewServer is a gateway that a peer dials.
func NewServer(namespace, peer, liqoNamespace string, gateway Gateway) *networkingv1beta1.GatewayServer {
	return &networkingv1beta1.GatewayServer{ObjectMeta: objectMeta(namespace, peer),
		Spec: networkingv1beta1.GatewayServerSpec{
			ServerTemplateRef: template("WgGatewayServerTemplate", "wireguard-server", liqoNamespace),
			MTU:               mtu,
			Endpoint:          networkingv1beta1.Endpoint{Port: port, ServiceType: corev1.ServiceType(gateway)},
			SecretRef:         corev1.LocalObjectReference{Name: keys},
		}}
}

// NewClient returns a gateway that connects to a peer's.
func NewClient(namespace, peer, liqoNamespace string, to *api.HandshakeEndpoint) *networkingv1beta1.GatewayClient {
	protocol := corev1.Protocol(to.Protocol)
	return &networkingv1beta1.GatewayClient{ObjectMeta: objectMeta(namespace, peer),
		Spec: networkingv1beta1.GatewayClientSpec{
			ClientTemplateRef: template("WgGatewayClientTemplate", "wireguard-client", liqoNamespace),
			MTU:               mtu,
			Endpoint:          networkingv1beta1.EndpointStatus{Addresses: to.Addresses, Port: to.Port, Protocol: &protocol},
			SecretRef:         corev1.LocalObjectReference{Name: keys},
		}}
}

func template(kind, name, namespace string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: networkingv1beta1.GroupVersion.String(),
		Kind: kind, Namespace: namespace, Name: name}
}

func newPublicKey(namespace, peer string, key []byte) *networkingv1beta1.PublicKey {
	return &networkingv1beta1.PublicKey{
		ObjectMeta: objectMeta(namespace, peer, consts.GatewayResourceLabel, consts.GatewayResourceLabelValue),
		Spec:       networkingv1beta1.PublicKeySpec{PublicKey: key},
	}
}

// endpointOf returns the endpoint of a gateway, as Liqo reports it; nil while it does not.
func endpointOf(s *networkingv1beta1.GatewayServer) *api.HandshakeEndpoint {
	if s == nil || s.Status.Endpoint == nil || s.Status.Endpoint.Port == 0 {
		return nil
	}
	at := s.Status.Endpoint
	// A node that is not Ready has an empty address.
	addresses := slices.DeleteFunc(slices.Clone(at.Addresses), func(a string) bool { return a == "" })
	if len(addresses) == 0 {
		return nil
	}
	out := &api.HandshakeEndpoint{Addresses: addresses, Port: at.Port, Protocol: string(corev1.ProtocolUDP)}
	if at.Protocol != nil {
		out.Protocol = string(*at.Protocol)
	}
	return out
}

// private lists the networks that pods may be in. With any other, a peer could attract traffic that
// is meant for the internet.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fc00::/7"),
}

// check rejects an invalid message about a peer's network. Errors: BadSignature.
func check(peer string, heard *api.HandshakeNetwork) error {
	for _, list := range [][]string{heard.PodCIDRs, heard.ExternalCIDRs} {
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
	if len(heard.PublicKey) != 0 && len(heard.PublicKey) != 32 {
		return api.Errorf(api.CodeBadSignature, "the public key of %s's gateway has %d bytes, not 32",
			peer, len(heard.PublicKey))
	}
	if p := heard.Proxy; p != nil && (len(p.Addresses) != 1 || p.Port <= 0 || p.Port >= 1<<16) {
		return api.Errorf(api.CodeBadSignature, "the proxy of %s needs one address and a port from 1 to 65535", peer)
	}
	e := heard.Endpoint
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
