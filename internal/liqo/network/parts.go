package network

import (
	"context"
	"fmt"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// parts holds the objects of the network with one peer; those that do not exist are nil.
type parts struct {
	namespace     string
	configuration *networkingv1beta1.Configuration
	server        *networkingv1beta1.GatewayServer
	client        *networkingv1beta1.GatewayClient
	key           *networkingv1beta1.PublicKey
	connection    *networkingv1beta1.Connection
	// byHand: an admin made one of them, so Bourse changes none. going: one is being removed.
	byHand, going bool
}

// read finds the objects as Liqo does: by their label, in any namespace.
func (n *Network) read(ctx context.Context, peer string) (*parts, error) {
	namespace, err := liqo.TenantNamespace(ctx, n.Client, peer)
	if err != nil {
		return nil, err
	}
	p := &parts{namespace: namespace}
	var (
		configurations networkingv1beta1.ConfigurationList
		servers        networkingv1beta1.GatewayServerList
		clients        networkingv1beta1.GatewayClientList
		publicKeys     networkingv1beta1.PublicKeyList
		connections    networkingv1beta1.ConnectionList
	)
	if err := n.List(ctx, &connections, liqo.Of(peer)); err != nil { // Liqo makes them
		return nil, err
	}
	for _, list := range []client.ObjectList{&configurations, &servers, &clients, &publicKeys} {
		if err := n.List(ctx, list, liqo.Of(peer)); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			p.byHand = p.byHand || !liqo.IsOurs(o)
			p.going = p.going || o.GetDeletionTimestamp() != nil
			return nil
		})
	}
	p.configuration, p.connection = last(configurations.Items), last(connections.Items)
	p.server, p.client, p.key = last(servers.Items), last(clients.Items), last(publicKeys.Items)
	return p, nil
}

// last returns the last item of a list, nil if it is empty.
func last[T any](items []T) *T {
	if len(items) == 0 {
		return nil
	}
	return &items[len(items)-1]
}

// connected adds the tunnel, as Liqo reports it, to a state.
func (p *parts) connected(peer string, s State) State {
	switch {
	case p.connection == nil:
		return s.waits(reasonTunnel, "the gateways of the two clusters have not connected yet")
	case p.connection.Status.Value != networkingv1beta1.Connected:
		return s.waits(reasonTunnel, "the tunnel to %s is %s", peer, strings.ToLower(string(p.connection.Status.Value)))
	}
	s.Ready, s.Reason, s.Message = true, reasonConnected, ""
	if latency := p.connection.Status.Latency.Value; latency != "" {
		s.Message = "latency " + latency
	}
	return s
}

func (s State) waits(reason, format string, args ...any) State {
	s.Ready, s.Reason, s.Message = false, reason, fmt.Sprintf(format, args...)
	return s
}

// neededBy returns the annotation of a Configuration for a direction of a peering that needs the network.
func neededBy(role api.PeeringRole) string {
	return api.Group + "/network-" + strings.ToLower(string(role))
}

// Needed reports whether the peering with a cluster in a role needs a network that we made.
func (n *Network) Needed(ctx context.Context, peer string, role api.PeeringRole) (bool, error) {
	p, err := n.read(ctx, peer)
	if err != nil || p.byHand || p.configuration == nil {
		return false, err
	}
	return p.configuration.Annotations[neededBy(role)] != "", nil
}

// Remove removes the objects that Ensure made for a peering, unless the other direction needs them;
// gone reports that none is left. The Configuration stays until the other side has confirmed the end,
// so a restart in between is harmless.
func (n *Network) Remove(ctx context.Context, peer string, role api.PeeringRole,
	confirmed bool) (gone bool, err error) {
	p, err := n.read(ctx, peer)
	if err != nil || p.byHand || p.configuration == nil {
		return err == nil, err
	}
	other := api.RoleProvider
	if role == api.RoleProvider {
		other = api.RoleConsumer
	}
	if p.configuration.Annotations[neededBy(other)] != "" {
		if !confirmed {
			return false, nil
		}
		return true, kubeobject.Change(ctx, n.Client, p.configuration, func() {
			delete(p.configuration.Annotations, neededBy(role))
		})
	}
	if p.key != nil || p.server != nil || p.client != nil {
		return false, n.disconnect(ctx, p)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.configuration.Namespace, Name: keys}}
	if err := n.Get(ctx, client.ObjectKeyFromObject(secret), secret); err == nil && liqo.IsOurs(secret) {
		return false, n.remove(ctx, secret)
	} else if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if !confirmed {
		return false, nil
	}
	return false, n.remove(ctx, p.configuration)
}

// disconnect removes our gateway and the key of the other one.
func (n *Network) disconnect(ctx context.Context, p *parts) error {
	if p.key != nil {
		if err := n.remove(ctx, p.key); err != nil {
			return err
		}
	}
	if p.client != nil {
		if err := n.remove(ctx, p.client); err != nil {
			return err
		}
	}
	if p.server != nil {
		return n.remove(ctx, p.server)
	}
	return nil
}

func (n *Network) remove(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := o.GetUID()
	return client.IgnoreNotFound(n.Delete(ctx, o, client.Preconditions{UID: &uid}))
}

// Reached returns the address ranges of a peer's pods, as pods here see them, through a network that
// we made. byHand includes networks that admins made.
func Reached(ctx context.Context, r client.Reader, peer string, byHand bool) ([]string, error) {
	var list networkingv1beta1.ConfigurationList
	if err := r.List(ctx, &list, liqo.Of(peer)); err != nil {
		return nil, err
	}
	var out []string
	for _, c := range list.Items {
		if c.Status.Remote == nil || c.DeletionTimestamp != nil || !byHand && !liqo.IsOurs(&c) {
			continue
		}
		for _, cidr := range append(c.Status.Remote.CIDR.Pod, c.Status.Remote.CIDR.External...) {
			if cidr != "" {
				out = append(out, string(cidr))
			}
		}
	}
	return out, nil
}
