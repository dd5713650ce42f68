package lending

import (
	"context"
	"errors"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Connect brings the network forward that a consumer asks for, if the policy allows it or did when
// it began. It ends the network when the consumer says so: a consumer that says nothing ends
// nothing. It adds to p what to send. The state is nil if there is no network.
func (l *Lending) Connect(ctx context.Context, consumer string, received *api.Handshake,
	p *peering.Progress) (*network.State, error) {
	remote := p.NetworkIn(received)
	net := l.options.Network
	needed, err := net.Needed(ctx, consumer, api.RoleConsumer)
	if err != nil || !needed && remote == nil {
		return nil, err
	}
	if remote != nil && remote.Over {
		gone, err := net.Remove(ctx, consumer, api.RoleConsumer, true)
		if gone {
			p.AddNetwork(&api.HandshakeNetwork{Over: true})
		}
		return nil, err
	}
	if !needed && !l.lendsNetwork() {
		p.AddNetwork(&api.HandshakeNetwork{Over: true,
			Why: "its SharingPolicy or its agent's --network-gateway does not allow it"})
		return nil, nil
	}
	s, err := net.Ensure(ctx, consumer, api.RoleConsumer, remote)
	if err != nil {
		return nil, err
	}
	if p.Through && s.Say != nil {
		if err := net.Carry(ctx, consumer, api.RoleConsumer); err != nil {
			return nil, err
		}
		s.Say.Proxy, err = net.Proxy(ctx)
		if cannot, ok := errors.AsType[*api.Error](err); ok {
			s.Ready, s.Reason, s.Message = false, "Proxy", cannot.Error()
		} else if err != nil {
			return nil, err
		}
	}
	p.AddNetwork(s.Say)
	return &s, nil
}

// Carried reports whether the peering itself runs through the network.
func (l *Lending) Carried(ctx context.Context, consumer string) (bool, error) {
	return l.options.Network.Carries(ctx, consumer, api.RoleConsumer)
}

// Disconnect takes the network down, and reports whether it is gone.
func (l *Lending) Disconnect(ctx context.Context, consumer string) (gone bool, err error) {
	return l.options.Network.Remove(ctx, consumer, api.RoleConsumer, true)
}

// lendsNetwork reports whether consumers may have a network with this cluster.
func (l *Lending) lendsNetwork() bool {
	s := l.options.Sharing()
	return l.options.Network.Gateway.Joins() && s != nil && s.Network == api.NetworkWireGuard
}

// access returns how consumers reach this cluster's API server.
func (l *Lending) access() api.APIServerAccess {
	if s := l.options.Sharing(); s != nil {
		return s.APIServerAccess
	}
	return ""
}
