package borrowing

import (
	"context"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Connect brings the network with a provider forward while a loan asks for one, and ends it when
// none does. It adds to p what to send. The state is nil if there is no network.
func (b *Borrowing) Connect(ctx context.Context, provider string, received *api.Handshake,
	p *peering.Progress) (*network.State, error) {
	state, net := b.state(provider), b.options.Network
	state.network = network.State{}
	loans, err := b.loans(ctx)
	if err != nil {
		return nil, err
	}
	carries, err := net.Carries(ctx, provider, api.RoleProvider)
	if err != nil {
		return nil, err
	}
	asking := slices.DeleteFunc(loans, func(l bound) bool { return l.Provider != provider || !l.connected() })
	asked := carries || len(asking) > 0
	if !asked && p.Through {
		return &network.State{
			Reason:  string(api.CodeNoNetwork),
			Message: "the API server of " + provider + " is reached through a network only, and no request asks for one",
		}, nil
	}
	if !asked {
		if needed, err := net.Needed(ctx, provider, api.RoleProvider); err != nil || !needed {
			return nil, err
		}
	}
	if p.Session, err = b.options.Peering.Session(ctx, provider); err != nil {
		return nil, err
	}
	remote := p.NetworkIn(received)
	if !asked {
		_, err := net.Remove(ctx, provider, api.RoleProvider, remote != nil && remote.Over)
		if p.Session != "" {
			p.SendNetwork(&api.HandshakeNetwork{Over: true}, true)
		}
		return nil, err
	}
	s, err := net.Ensure(ctx, provider, api.RoleProvider, remote)
	if err != nil {
		return nil, err
	}
	if p.ByHand && !s.Configured {
		s.Message = "the peering with " + provider + " was made by hand: make its network by hand, too"
	}
	state.network = s
	if p.Through {
		return &s, b.continueByNetwork(ctx, provider, asking, remote, p, &s)
	}
	if s.Say != nil && p.Session != "" {
		p.SendNetwork(s.Say, !s.Ready)
	}
	return &s, nil
}

// continueByNetwork lets the handshake go on once the provider's API server can be reached through the network.
func (b *Borrowing) continueByNetwork(ctx context.Context, provider string, asking []bound,
	remote *api.HandshakeNetwork, p *peering.Progress, s *network.State) error {
	switch {
	case s.Say == nil && s.Configured:
		s.Ready, s.Reason = false, string(api.CodeNoNetwork)
		s.Message = "the network with " + provider + " was made by hand, " +
			"but only a network of the two agents leads to its API server: peer by hand, too"
	case s.Ready && (remote == nil || remote.Proxy == nil):
		s.Ready, s.Reason, s.Message = false, "Proxy",
			provider+" has not sent the address of its API server in the network yet"
	}
	if s.Ready {
		if err := b.options.Network.Carry(ctx, provider, api.RoleProvider); err != nil {
			return err
		}
	}
	if err := b.showNetwork(ctx, asking, *s); err != nil {
		return err
	}
	if p.Say != nil || s.Say != nil {
		p.SendNetwork(s.Say, true)
	}
	return nil
}

// awaitNetwork shows how far the network is that loans ask for. It returns what a new slice waits
// for, because a virtual kubelet reads the addresses of the provider's pods only once.
func (b *Borrowing) awaitNetwork(ctx context.Context, provider, slice string, loans []bound) (waits string, err error) {
	asking := slices.DeleteFunc(slices.Clone(loans), func(l bound) bool { return !l.connected() })
	if len(asking) == 0 {
		return "", nil
	}
	s := b.state(provider).network
	if err := b.showNetwork(ctx, asking, s); err != nil || s.Configured {
		return "", err
	}
	have, err := b.options.Slices.Names(ctx, provider)
	if err != nil || slices.Contains(have, slice) {
		return "", err
	}
	return "network: " + s.Message, nil
}

func (b *Borrowing) showNetwork(ctx context.Context, asking []bound, s network.State) error {
	return b.showCondition(ctx, asking, networkPart, condition(api.ConditionNetworkReady, s.Ready, s.Reason, s.Message))
}

// Carried reports whether the peering itself runs through the network.
func (b *Borrowing) Carried(ctx context.Context, provider string) (bool, error) {
	return b.options.Network.Carries(ctx, provider, api.RoleProvider)
}

// Disconnect takes the network down, and reports whether it is gone.
func (b *Borrowing) Disconnect(ctx context.Context, provider string) (gone bool, err error) {
	return b.options.Network.Remove(ctx, provider, api.RoleProvider, true)
}
