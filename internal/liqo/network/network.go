// Package network is Liqo's network between two clusters, taken apart into messages, as package peering is its handshake.
//
// Pods of two clusters reach each other through a WireGuard tunnel between a gateway in each, of which one dials the
// other. Liqo makes it of five objects on each side: a Configuration, which holds the addresses of the other cluster; a
// GatewayServer on one side, a GatewayClient, which holds the server's endpoint, on the other; a Secret with the key of the
// gateway; a PublicKey, which is the other's. Here each side makes its own, and says to the other what it needs
// ([api.HandshakeNetwork]): nothing secret. Liqo makes the rest, and reports it in a Connection.
//
// [Network.Ensure] is called again and again with what the other side last said: each call does what can be done, and
// returns what to say. It keeps nothing: where it stands is read from the objects. The Configuration comes first and goes
// last, and remembers, in annotations, in which directions of the peering the network is needed: two clusters may lend to
// each other, and have one network.
package network

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Network makes and removes this cluster's half of networks. Client must read Secrets from the API server, not from a cache.
type Network struct {
	client.Client
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	// Cluster is this cluster's ID, LiqoNamespace where its Liqo lives.
	Cluster, LiqoNamespace string
	// Gateway is how others reach this cluster's gateways.
	Gateway Gateway
	// Allows says why Liqo's gateway is not to dial an address, or a name, that a peer says; nil: it dials any.
	Allows func(ctx context.Context, host string) error
}

// Standing is how far a network is.
type Standing struct {
	// Configured says that Liqo knows by which addresses the other cluster is reached: virtual kubelets, which look once,
	// may start. Ready says that the tunnel is up.
	Configured, Ready bool
	// Reason and Message say what is waited for.
	Reason, Message string
	// Say is what to tell the other side; nil if nothing.
	Say *api.HandshakeNetwork
}

// Reasons of a network that is not ready, besides the codes of errors.
const (
	reasonConnected = "Connected"
	reasonHandshake = "Handshake" // the other side has yet to say something
	reasonAddresses = "Addresses" // Liqo has yet to map the other cluster's addresses
	reasonEndpoint  = "Endpoint"  // a gateway has yet to get its address
	reasonTunnel    = "Tunnel"    // the gateways have yet to connect
	reasonRefused   = "Refused"   // one of the two sides takes no part
	reasonRemoving  = "Removing"  // an earlier network has yet to go
)

// keys is the Secret with the keys of our gateway. It has a name of its own, so that the agent needs no right to read others.
const keys = "bourse-gateway"

// Ensure does what can be done now. role is what the peer is to this cluster, heard what it last said of the network, nil if
// nothing. What cannot be is in the Standing; errors are the API server's.
func (n *Network) Ensure(ctx context.Context, peer string, role api.PeeringRole, heard *api.HandshakeNetwork) (Standing, error) {
	p, err := n.read(ctx, peer)
	if err != nil {
		return Standing{}, err
	}
	if p.byHand {
		return p.connected(peer, Standing{Configured: true}), nil
	}
	var s Standing
	switch {
	case p.going:
		return s.waits(reasonRemoving, "an earlier network with %s is being removed", peer), nil
	case p.configuration == nil && !n.Gateway.Joins():
		return s.waits(reasonRefused, "this cluster takes part in no network (--network-gateway of its agent)"), nil
	}
	err = n.bring(ctx, p, peer, role, heard, &s)
	if cannot := (*api.Error)(nil); errors.As(err, &cannot) {
		return s.waits(string(cannot.Code), "%s", cannot.Error()), nil
	}
	return s, err
}

// bring makes, one after the other, what the network needs here.
func (n *Network) bring(ctx context.Context, p *parts, peer string, role api.PeeringRole, heard *api.HandshakeNetwork, s *Standing) (err error) {
	if s.Say, err = n.introduce(ctx); err != nil {
		return err
	}
	if heard != nil && heard.Over {
		*s = s.waits(reasonRefused, "%s takes no part in the network; it says %.200q", peer, heard.Why)
		heard = nil
	} else if heard == nil && p.configuration == nil {
		*s = s.waits(reasonHandshake, "%s has not said anything of its network yet", peer)
	}
	if heard != nil {
		if err := check(peer, heard); err != nil {
			return err
		}
		if err := n.foreign(ctx, peer, heard); err != nil {
			return err
		}
		if err := n.configure(ctx, p, peer, role, heard); err != nil {
			return err
		}
	}
	if p.configuration == nil {
		return nil
	}
	if s.Configured = configured(p.configuration); !s.Configured {
		*s = s.waits(reasonAddresses, "Liqo has not mapped the addresses of %s yet", peer)
		return nil
	}
	if s.Say.PublicKey, err = n.publicKey(ctx, p, peer); err != nil {
		return err
	}
	if heard != nil {
		if err := n.connect(ctx, p, peer, role, heard); err != nil {
			return err
		}
	}
	s.Say.Serves = p.server != nil
	if s.Say.Endpoint = endpointOf(p.server); s.Say.Serves && s.Say.Endpoint == nil {
		*s = s.waits(reasonEndpoint, "the gateway for %s has no address yet", peer)
	} else if s.Reason == "" {
		*s = p.connected(peer, *s)
	}
	return nil
}

// introduce is what this cluster can say before it knows anything of the other.
// Errors: Unavailable where Liqo has no networks yet.
func (n *Network) introduce(ctx context.Context) (*api.HandshakeNetwork, error) {
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
			return nil, api.Errorf(api.CodeUnavailable, "Liqo has not reserved network %s yet", network.Name).Fix("see whether Liqo's IPAM runs")
		}
		if kind == consts.NetworkTypePodCIDR {
			say.PodCIDRs = append(say.PodCIDRs, cidr)
		} else {
			say.ExternalCIDRs = append(say.ExternalCIDRs, cidr)
		}
	}
	if len(say.PodCIDRs) == 0 || len(say.ExternalCIDRs) != 1 {
		return nil, api.Errorf(api.CodeUnavailable, "namespace %s has %d Networks of pods and %d external ones", n.LiqoNamespace, len(say.PodCIDRs), len(say.ExternalCIDRs)).
			Fix("install Liqo with networking.enabled")
	}
	return say, nil
}

// foreign refuses addresses in which nodes of ours are: pods of the peer would be let to them.
func (n *Network) foreign(ctx context.Context, peer string, heard *api.HandshakeNetwork) error {
	var nodes corev1.NodeList
	if err := n.List(ctx, &nodes); err != nil {
		return err
	}
	for _, text := range slices.Concat(heard.PodCIDRs, heard.ExternalCIDRs) {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			for _, a := range node.Status.Addresses {
				if at, err := netip.ParseAddr(a.Address); err == nil && cidr.Contains(at) {
					return api.Errorf(api.CodeBadSignature, "%s says that its pods are in %s, where node %s of this cluster is", peer, text, node.Name).
						Fix("give one of the two clusters other addresses; and name yours in Liqo's ipam.reservedSubnets")
				}
			}
		}
	}
	return nil
}

// configure tells our Liqo by which addresses the peer's pods know each other.
func (n *Network) configure(ctx context.Context, p *parts, peer string, role api.PeeringRole, heard *api.HandshakeNetwork) error {
	want := NewConfiguration(p.namespace, peer, heard)
	if p.configuration == nil {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, neededBy(role), "true")
		p.configuration = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	before := p.configuration.DeepCopy()
	p.configuration.Spec.Remote = want.Spec.Remote
	if p.configuration.Annotations[neededBy(role)] == "" {
		metav1.SetMetaDataAnnotation(&p.configuration.ObjectMeta, neededBy(role), "true")
	}
	return n.patch(ctx, before, p.configuration)
}

// connect makes our gateway, and lets in the peer's.
func (n *Network) connect(ctx context.Context, p *parts, peer string, role api.PeeringRole, heard *api.HandshakeNetwork) error {
	serves, err := n.serves(p, peer, role, heard)
	if err != nil {
		return err
	}
	if serves {
		err = n.serve(ctx, p, peer)
	} else {
		err = n.dial(ctx, p, peer, heard)
	}
	if err != nil || len(heard.PublicKey) == 0 {
		return err
	}
	want := newPublicKey(p.namespace, peer, heard.PublicKey)
	if p.key == nil {
		p.key = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	before := p.key.DeepCopy()
	p.key.Spec = want.Spec
	return n.patch(ctx, before, p.key)
}

// serves says whether this cluster has the gateway that is dialled: the provider if it can, unless one stands already.
// Errors: NoNetwork where neither can.
func (n *Network) serves(p *parts, peer string, role api.PeeringRole, heard *api.HandshakeNetwork) (bool, error) {
	mine, theirs := n.Gateway.Serves(), heard.Reachable
	switch {
	case !mine && !theirs:
		return false, api.Errorf(api.CodeNoNetwork, "neither the gateway of %s nor that of %s can be reached by the other", n.Cluster, peer).
			Fix("make one of them reachable (--network-gateway of its agent)")
	case !mine || !theirs:
		return mine, nil
	case p.server != nil && heard.Serves: // both began, each as the provider of a direction
		return n.Cluster < peer, nil
	case p.server != nil || p.client != nil:
		return p.server != nil, nil
	}
	return !heard.Serves && role == api.RoleConsumer, nil
}

// serve makes our gateway one that is dialled.
func (n *Network) serve(ctx context.Context, p *parts, peer string) error {
	if p.client != nil {
		return n.remove(ctx, p.client)
	}
	want := NewServer(p.namespace, peer, n.LiqoNamespace, n.Gateway)
	if p.server == nil {
		p.server = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	before := p.server.DeepCopy()
	p.server.Spec.Endpoint.ServiceType = want.Spec.Endpoint.ServiceType
	return n.patch(ctx, before, p.server)
}

// dial makes our gateway one that dials the peer's, once that has an address.
func (n *Network) dial(ctx context.Context, p *parts, peer string, heard *api.HandshakeNetwork) error {
	if p.server != nil {
		return n.remove(ctx, p.server)
	}
	if heard.Endpoint == nil {
		return nil
	}
	for _, host := range heard.Endpoint.Addresses {
		if n.Allows != nil {
			if err := n.Allows(ctx, host); err != nil {
				return err
			}
		}
	}
	want := NewClient(p.namespace, peer, n.LiqoNamespace, heard.Endpoint)
	if p.client == nil {
		p.client = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	before := p.client.DeepCopy()
	p.client.Spec.Endpoint = want.Spec.Endpoint
	return n.patch(ctx, before, p.client)
}

// publicKey is that of our gateway, whose keys it makes if there are none. The private one stays in its Secret.
func (n *Network) publicKey(ctx context.Context, p *parts, peer string) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: keys}}
	err := n.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if !apierrors.IsNotFound(err) {
		return secret.Data[consts.PublicKeyField], err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	secret.Labels = liqo.Labels(peer, consts.GatewayResourceLabel, consts.GatewayResourceLabelValue)
	secret.Data = map[string][]byte{consts.PrivateKeyField: key.Bytes(), consts.PublicKeyField: key.PublicKey().Bytes()}
	return secret.Data[consts.PublicKeyField], n.Create(ctx, secret)
}

// patch writes what changed, if anything did.
func (n *Network) patch(ctx context.Context, before, after client.Object) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return n.Patch(ctx, after, client.MergeFrom(before))
}

func configured(c *networkingv1beta1.Configuration) bool {
	condition := meta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == c.Generation && c.Status.Remote != nil
}
