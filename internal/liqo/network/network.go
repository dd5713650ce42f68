// Package network splits the setup of Liqo's network between two clusters into messages between two
// agents, as package peering does for the handshake.
//
// Pods of two clusters reach each other through a WireGuard tunnel. Each cluster has a gateway, and
// one gateway connects to the other. Each side has these objects:
//
//   - a Configuration, with the addresses of the other cluster;
//   - a GatewayServer on one side; on the other a GatewayClient, with the endpoint of the server;
//   - a Secret with the key of its gateway;
//   - a PublicKey, that of the other gateway.
//
// Here each side makes its own objects and sends the other a message ([api.HandshakeNetwork]) without
// secrets. Liqo makes the rest and reports the state in a Connection.
//
// Callers repeat [Network.Ensure], each time with the newest message of the other side. Each call
// takes the steps that are possible now and returns the next message. Progress is read from the
// objects. The Configuration is made first and removed last. Its annotations record the directions of
// the peering that need the network: two clusters that lend to each other share one network.
package network

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Network makes and removes this cluster's half of networks. Client must read Secrets from the API
// server, not from a cache.
type Network struct {
	client.Client
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	// Cluster is this cluster's ID; LiqoNamespace is the namespace of its Liqo.
	Cluster, LiqoNamespace string
	// Gateway configures how others reach this cluster's gateways.
	Gateway Gateway
	// Allows returns an error if Liqo's gateway must not connect to a host that a peer names. Nil: all
	// are allowed.
	Allows func(ctx context.Context, host string) error
}

// State is how far the network with a peer is.
type State struct {
	// Configured: Liqo has mapped the other cluster's addresses, so virtual kubelets, which read them
	// once, may start. Ready: the tunnel is up.
	Configured, Ready bool
	// Reason and Message name the step that is awaited.
	Reason, Message string
	// Say is the message to send to the other side; nil if there is none.
	Say *api.HandshakeNetwork
}

// Reasons for which a network is not ready, besides the codes of errors.
const (
	reasonConnected = "Connected"
	reasonHandshake = "Handshake" // no message from the other side yet
	reasonAddresses = "Addresses" // Liqo has not mapped the other cluster's addresses yet
	reasonEndpoint  = "Endpoint"  // a gateway has no address yet
	reasonTunnel    = "Tunnel"    // the gateways have not connected yet
	reasonRefused   = "Refused"   // one of the two sides does not take part
	reasonRemoving  = "Removing"  // an earlier network is being removed
)

// keys is the Secret with the keys of our gateway. Its own name lets the agent's role name it alone.
const keys = "bourse-gateway"

// Ensure takes the steps that are possible now. role is the peer's role for this cluster; network
// is its newest message about the network, nil if there is none. The State reports what is impossible;
// errors are those of the API server.
func (n *Network) Ensure(ctx context.Context, peer string, role api.PeeringRole,
	network *api.HandshakeNetwork) (State, error) {
	p, err := n.read(ctx, peer)
	if err != nil {
		return State{}, err
	}
	if p.byHand {
		return p.connected(peer, State{Configured: true}), nil
	}
	var s State
	switch {
	case p.going:
		return s.waits(reasonRemoving, "an earlier network with %s is being removed", peer), nil
	case p.configuration == nil && !n.Gateway.Joins():
		return s.waits(reasonRefused, "this cluster takes part in no network (--network-gateway of its agent)"), nil
	}
	err = n.ensureObjects(ctx, p, peer, role, network, &s)
	if cannot := (*api.Error)(nil); errors.As(err, &cannot) {
		return s.waits(string(cannot.Code), "%s", cannot.Error()), nil
	}
	return s, err
}

// ensureObjects makes the objects that the network needs here, one after the other.
func (n *Network) ensureObjects(ctx context.Context, p *parts, peer string,
	role api.PeeringRole, network *api.HandshakeNetwork, s *State) (err error) {
	if s.Say, err = n.describeNetworks(ctx); err != nil {
		return err
	}
	if network != nil && network.Over {
		*s = s.waits(reasonRefused, "%s does not take part in the network; its reason is %.200q", peer, network.Why)
		network = nil
	} else if network == nil && p.configuration == nil {
		*s = s.waits(reasonHandshake, "%s has not sent a message about its network yet", peer)
	}
	if network != nil {
		if err := check(peer, network); err != nil {
			return err
		}
		if err := n.configure(ctx, p, peer, role, network); err != nil {
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
	if network != nil {
		if err := n.connect(ctx, p, peer, role, network); err != nil {
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

// configure gives our Liqo the addresses of the peer's pods, as the peer uses them.
func (n *Network) configure(ctx context.Context, p *parts, peer string,
	role api.PeeringRole, network *api.HandshakeNetwork) error {
	want := NewConfiguration(p.namespace, peer, network)
	if p.configuration == nil || !equality.Semantic.DeepEqual(p.configuration.Spec.Remote, want.Spec.Remote) {
		if err := n.foreign(ctx, peer, network); err != nil {
			return err
		}
	}
	if p.configuration == nil {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, neededBy(role), "true")
		p.configuration = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	return kubeobject.Change(ctx, n.Client, p.configuration, func() {
		p.configuration.Spec.Remote = want.Spec.Remote
		if p.configuration.Annotations[neededBy(role)] == "" {
			metav1.SetMetaDataAnnotation(&p.configuration.ObjectMeta, neededBy(role), "true")
		}
	})
}

// connect makes our gateway and gives it the key of the peer's.
func (n *Network) connect(ctx context.Context, p *parts, peer string,
	role api.PeeringRole, network *api.HandshakeNetwork) error {
	serves, err := n.serves(p, peer, role, network)
	if err != nil {
		return err
	}
	if serves {
		err = n.serve(ctx, p, peer)
	} else {
		err = n.dial(ctx, p, peer, network)
	}
	if err != nil || len(network.PublicKey) == 0 {
		return err
	}
	want := newPublicKey(p.namespace, peer, network.PublicKey)
	if p.key == nil {
		p.key = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	return kubeobject.Change(ctx, n.Client, p.key, func() { p.key.Spec = want.Spec })
}

// serves reports whether this cluster's gateway is the server. The provider's is, if it is reachable,
// unless one exists already. Errors: NoNetwork if neither is reachable.
func (n *Network) serves(p *parts, peer string, role api.PeeringRole, network *api.HandshakeNetwork) (bool, error) {
	own, remote := n.Gateway.Serves(), network.Reachable
	switch {
	case !own && !remote:
		return false, api.Errorf(api.CodeNoNetwork, "neither %s nor %s has a gateway that the other can reach",
			n.Cluster, peer).
			Fix("make one of them reachable (--network-gateway of its agent)")
	case !own || !remote:
		return own, nil
	case p.server != nil && network.Serves: // both started, each as the provider of one direction
		return n.Cluster < peer, nil
	case p.server != nil || p.client != nil:
		return p.server != nil, nil
	}
	return !network.Serves && role == api.RoleConsumer, nil
}

// serve makes our gateway a server.
func (n *Network) serve(ctx context.Context, p *parts, peer string) error {
	if p.client != nil {
		return n.remove(ctx, p.client)
	}
	want := NewServer(p.namespace, peer, n.LiqoNamespace, n.Gateway)
	if p.server == nil {
		p.server = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	return kubeobject.Change(ctx, n.Client, p.server, func() {
		p.server.Spec.Endpoint.ServiceType = want.Spec.Endpoint.ServiceType
	})
}

// dial makes our gateway a client of the peer's, once the peer's has an address.
func (n *Network) dial(ctx context.Context, p *parts, peer string, network *api.HandshakeNetwork) error {
	if p.server != nil {
		return n.remove(ctx, p.server)
	}
	if network.Endpoint == nil {
		return nil
	}
	for _, host := range network.Endpoint.Addresses {
		if n.Allows != nil {
			if err := n.Allows(ctx, host); err != nil {
				return err
			}
		}
	}
	want := NewClient(p.namespace, peer, n.LiqoNamespace, network.Endpoint)
	if p.client == nil {
		p.client = want
		return client.IgnoreAlreadyExists(n.Create(ctx, want)) // our cache may lag
	}
	return kubeobject.Change(ctx, n.Client, p.client, func() {
		p.client.Spec.Endpoint = want.Spec.Endpoint
	})
}

// publicKey returns the public key of our gateway and makes the keys if there are none. The private
// key stays in its Secret.
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

func configured(c *networkingv1beta1.Configuration) bool {
	condition := meta.FindStatusCondition(c.Status.Conditions,
		networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	return condition != nil && condition.Status == metav1.ConditionTrue &&
		condition.ObservedGeneration == c.Generation && c.Status.Remote != nil
}
