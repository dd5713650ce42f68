package network

import (
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// liqoctl uses these values, too.
const (
	port = 51840
	mtu  = 1340
)

// objectMeta is that of an object of the network with a peer. Liqo compares the names of gateways
// across namespaces, so each object has the peer's name.
func objectMeta(namespace, peer string, labels ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: peer, Labels: liqo.Labels(peer, labels...)}
}

// NewConfiguration tells Liqo the addresses of a peer.
func NewConfiguration(namespace, peer string, network *api.HandshakeNetwork) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: objectMeta(namespace, peer)}
	for _, cidr := range network.PodCIDRs {
		c.Spec.Remote.CIDR.Pod = append(c.Spec.Remote.CIDR.Pod, networkingv1beta1.CIDR(cidr))
	}
	for _, cidr := range network.ExternalCIDRs {
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
	endpoint := s.Status.Endpoint
	// A node that is not Ready has an empty address.
	addresses := slices.DeleteFunc(slices.Clone(endpoint.Addresses), func(a string) bool { return a == "" })
	if len(addresses) == 0 {
		return nil
	}
	out := &api.HandshakeEndpoint{Addresses: addresses, Port: endpoint.Port, Protocol: string(corev1.ProtocolUDP)}
	if endpoint.Protocol != nil {
		out.Protocol = string(*endpoint.Protocol)
	}
	return out
}
