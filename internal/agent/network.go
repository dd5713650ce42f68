package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// awhile is how often a network is looked at that does not stand yet: what it waits for takes seconds to minutes.
const awhile = 2 * time.Second

// networkHeard is what the other side says of the network, in a message of this peering.
func networkHeard(heard *api.Handshake, session string) *api.HandshakeNetwork {
	if heard == nil || session == "" || heard.Session != session {
		return nil
	}
	return heard.Network
}

// connect brings the network with a provider forward while a loan asks for one, and ends it when none does any more.
func (b *borrow) connect(ctx context.Context, peer string, heard *api.Handshake, p *peering.Progress) (*network.Standing, error) {
	delete(b.networks, peer)
	loans, err := b.bound(ctx)
	if err != nil {
		return nil, err
	}
	carries, err := b.network.Carries(ctx, peer, api.RoleProvider)
	if err != nil {
		return nil, err
	}
	asked := carries || slices.ContainsFunc(loans, func(l loan) bool { return l.Provider == peer && l.connected() })
	if !asked && p.Through {
		return &network.Standing{Reason: string(api.CodeNoNetwork), Message: "the API server of " + peer + " is reached through a network only, and no request asks for one"}, nil
	}
	if !asked {
		if needed, err := b.network.Needed(ctx, peer, api.RoleProvider); err != nil || !needed {
			return nil, err
		}
	}
	if p.Session, err = b.peering.Session(ctx, peer); err != nil {
		return nil, err
	}
	said := networkHeard(heard, p.Session)
	if !asked {
		_, err := b.network.Remove(ctx, peer, api.RoleProvider, said != nil && said.Over)
		if p.Session != "" {
			ask(p, &api.HandshakeNetwork{Over: true}, true)
		}
		return nil, err
	}
	s, err := b.network.Ensure(ctx, peer, api.RoleProvider, said)
	if err != nil {
		return nil, err
	}
	if p.ByHand && !s.Configured {
		s.Message = "the peering with " + peer + " was made by hand: make its network by hand, too"
	}
	b.networks[peer] = s
	if p.Through {
		return &s, b.through(ctx, peer, loans, said, p, &s)
	}
	if s.Say != nil && p.Session != "" {
		ask(p, s.Say, !s.Ready)
	}
	return &s, nil
}

// through lets the handshake go on once the provider's API server can be reached through the network.
func (b *borrow) through(ctx context.Context, peer string, loans []loan, said *api.HandshakeNetwork, p *peering.Progress, s *network.Standing) error {
	switch {
	case s.Say == nil && s.Configured:
		s.Ready, s.Reason, s.Message = false, string(api.CodeNoNetwork), "the network with "+peer+" was made by hand, and only one that the two agents made leads to its API server: peer by hand, too"
	case s.Ready && (said == nil || said.Proxy == nil):
		s.Ready, s.Reason, s.Message = false, "Proxy", peer+" has not said yet where in the network its API server is reached"
	}
	if s.Ready {
		if err := b.network.Carry(ctx, peer, api.RoleProvider); err != nil {
			return err
		}
	}
	b.show(ctx, slices.DeleteFunc(slices.Clone(loans), func(l loan) bool { return l.Provider != peer || !l.connected() }), shown{api.ConditionNetworkReady, s.Ready, s.Reason, s.Message})
	if p.Say != nil || s.Say != nil {
		ask(p, s.Say, true)
	}
	return nil
}

// connected says whether a loan's request asks for a network.
func (l loan) connected() bool {
	return l.request != nil && l.request.Spec.Network == api.NetworkWireGuard
}

// awaitNetwork shows how far the network is to the loans that ask for it, and says what a virtual node waits for that is yet to
// be made: its kubelet looks once by which addresses the provider's pods are reached.
func (b *borrow) awaitNetwork(ctx context.Context, provider, slice string, loans []loan) (string, error) {
	asking := slices.DeleteFunc(slices.Clone(loans), func(l loan) bool { return !l.connected() })
	if len(asking) == 0 {
		return "", nil
	}
	s := b.networks[provider]
	b.show(ctx, asking, shown{api.ConditionNetworkReady, s.Ready, s.Reason, s.Message})
	if s.Configured {
		return "", nil
	}
	have, err := b.slices.Names(ctx, provider)
	if err != nil || slices.Contains(have, slice) {
		return "", err
	}
	return "network: " + s.Message, nil
}

// connect brings the network forward that a consumer asks for, if the policy allows it or did when it began, and ends it
// when the consumer says so. A consumer that says nothing ends nothing.
func (l *lend) connect(ctx context.Context, peer string, heard *api.Handshake, p *peering.Progress) (*network.Standing, error) {
	said := networkHeard(heard, p.Session)
	needed, err := l.network.Needed(ctx, peer, api.RoleConsumer)
	if err != nil || !needed && said == nil {
		return nil, err
	}
	if said != nil && said.Over {
		gone, err := l.network.Remove(ctx, peer, api.RoleConsumer, true)
		if gone {
			tell(p, &api.HandshakeNetwork{Over: true})
		}
		return nil, err
	}
	if !needed && !l.lendsNetwork() {
		tell(p, &api.HandshakeNetwork{Over: true, Why: "its SharingPolicy or its agent's --network-gateway does not allow it"})
		return nil, nil
	}
	s, err := l.network.Ensure(ctx, peer, api.RoleConsumer, said)
	if err != nil {
		return nil, err
	}
	if p.Through && s.Say != nil {
		if err := l.network.Carry(ctx, peer, api.RoleConsumer); err != nil {
			return nil, err
		}
		s.Say.Proxy, err = l.network.Proxy(ctx)
		if cannot := (*api.Error)(nil); errors.As(err, &cannot) {
			s.Ready, s.Reason, s.Message = false, "Proxy", cannot.Error()
		} else if err != nil {
			return nil, err
		}
	}
	tell(p, s.Say)
	return &s, nil
}

// ask says it also where nothing is said otherwise.
func ask(p *peering.Progress, say *api.HandshakeNetwork, again bool) {
	if p.Say == nil {
		p.Say = &api.HandshakeContent{}
	}
	tell(p, say)
	p.Repeat = p.Repeat || again
}

// tell adds what there is to say of the network to what is said anyway.
func tell(p *peering.Progress, say *api.HandshakeNetwork) {
	if p.Say == nil || say == nil {
		return
	}
	with := *p.Say
	with.Network = say
	p.Say = &with
}

// lendsNetwork says whether consumers may have a network with this cluster.
func (l *lend) lendsNetwork() bool {
	s := l.sharing()
	return l.network.Gateway.Joins() && s != nil && s.Network == api.NetworkWireGuard
}

// access is how consumers reach this cluster's API server.
func (l *lend) access() api.APIServerAccess {
	if s := l.sharing(); s != nil {
		return s.APIServerAccess
	}
	return ""
}

// withNetwork are the conditions of a peering with how far its network is; nil: nobody asks for one.
func withNetwork(object *api.Peering, s *network.Standing) []metav1.Condition {
	conditions := object.Status.DeepCopy().Conditions
	if s == nil {
		meta.RemoveStatusCondition(&conditions, api.ConditionNetworkReady)
		return conditions
	}
	c := metav1.Condition{Type: api.ConditionNetworkReady, Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message, ObservedGeneration: object.Generation}
	if s.Ready {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&conditions, c)
	return conditions
}

// agreeNetwork says why the network that a request asks for cannot be made with a provider; nil if it can, or none is asked for.
// Errors: NoNetwork.
func agreeNetwork(own network.Gateway, r api.Request, provider *api.Card) error {
	theirs := provider.Properties
	switch {
	case r.Network != api.NetworkWireGuard && theirs.APIServerAccess == api.APIServerNetwork:
		return api.Errorf(api.CodeNoNetwork, "the API server of %s is reached through a network only", provider.Cluster).Fix("ask for one: --network wireguard")
	case r.Network != api.NetworkWireGuard:
		return nil
	case theirs.Network != api.NetworkWireGuard:
		return api.Errorf(api.CodeNoNetwork, "cluster %s has no network with consumers", provider.Cluster).Fix("ask its admin to allow it (SharingPolicy network), or ask without")
	case !theirs.Gateway && !own.Serves():
		return api.Errorf(api.CodeNoNetwork, "neither the gateway of %s nor that of this cluster can be reached by the other", provider.Cluster).
			Fix("make one of them reachable (--network-gateway of its agent)")
	}
	return nil
}
