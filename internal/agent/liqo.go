package agent

import (
	"context"
	"log/slog"
	"sync"

	"github.com/bourse-dev/bourse/internal/agent/borrowing"
	"github.com/bourse-dev/bourse/internal/agent/handshake"
	"github.com/bourse-dev/bourse/internal/agent/lending"
	"github.com/bourse-dev/bourse/internal/agent/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/peering"
	"github.com/bourse-dev/bourse/internal/agent/peers"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/agent/usage"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	liqopeering "github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// findLiqo returns this cluster's Liqo, nil where there is none that can be used. changed is called when its configuration changes.
func (a *agent) findLiqo(ctx context.Context, addresses *peeraddress.Checker, changed func(), log *slog.Logger) (*liqowatch.Watch, error) {
	if a.WithoutLiqo {
		return nil, nil
	}
	return liqowatch.New(ctx, liqowatch.Options{
		Reader: a.mgr.GetAPIReader(), Mapper: a.mgr.GetRESTMapper(), Namespace: a.LiqoNamespace, APIServer: a.APIServer,
		Gateway: a.gateway, AllowUntested: a.AllowUntestedLiqo, Addresses: addresses, Changed: changed, Log: log,
	})
}

// useLiqo turns reservations into virtual nodes.
func (a *agent) useLiqo(cluster string, addresses *peeraddress.Checker, policy *sharing.Policy, messenger *handshake.Messenger, relay transport.Broker, m *exchange.Exchange, known *peers.Peers, inv *inventory.Inventory, trigger *kubeobject.Trigger, log *slog.Logger) (*usage.Usage, *peering.Peerings, *borrowing.Borrowing, error) {
	c, reader := a.mgr.GetClient(), a.mgr.GetAPIReader()
	graces := grant.Graces{Shrink: a.ShrinkGrace, Excess: a.ExcessGrace}
	net := &network.Network{Client: c, Reader: reader, Cluster: cluster, LiqoNamespace: a.LiqoNamespace, Gateway: a.gateway, Allows: addresses.CheckHost}
	policies := &posture.Policies{Known: c, Reader: reader, Writer: c, Namespace: a.Namespace, Cluster: cluster}
	used := usage.New(usage.Options{
		Client: c, Reader: reader, Namespace: a.Namespace, Market: m, Inventory: inv, Graces: graces,
		Events: a.mgr.GetEventRecorder("bourse-agent"), Log: log,
	})
	lends := lending.New(lending.Options{
		Client: c, Reader: reader, Cluster: cluster, Market: m, Network: net, Policies: policies, Sharing: policy.Sharing, Suspension: known.Suspension, Usage: used,
	})
	borrows := borrowing.New(borrowing.Options{
		Client: c, Reader: reader, Market: m, Relay: relay, Network: net, Inventory: inv, Graces: graces,
		Peering: &liqopeering.Consumer{Client: c, Cluster: cluster, LiqoNamespace: a.LiqoNamespace, Proxy: net.ProxyOf, Allows: addresses.CheckURL},
		Slices:  &offload.Slices{Client: c, Reader: reader, LiqoNamespace: a.LiqoNamespace, Guarded: policies.Stand},
	})
	peerings := peering.New(peering.Options{
		Client: c, Namespace: a.Namespace, Market: m, Messages: messenger, Peers: known, Lending: lends, Borrowing: borrows,
		Graces: peering.Graces{Linger: a.Linger, Abandon: a.Abandon}, Trigger: trigger,
	})
	if err := peerings.Control(a.mgr); err != nil {
		return nil, nil, nil, err
	}
	return used, peerings, borrows, lends.Control(a.mgr)
}

// consumerOf says in whose account the pods of a slice's user are, by the accounts in the Ledger.
func consumerOf(m *exchange.Exchange) func(string) string {
	var mu sync.Mutex
	known, at := map[string]string{}, uint64(0)
	return func(user string) string {
		mu.Lock()
		defer mu.Unlock()
		revision := m.View().Revision
		if revision != at || len(known) == 0 {
			_ = m.Read(context.Background(), func(s *market.State) {
				for _, r := range s.All() {
					if slice := r.Slice(); slice != "" {
						known[grant.User(slice, r.Consumer)] = r.Consumer
					}
				}
			})
			at = revision
		}
		return known[user]
	}
}
