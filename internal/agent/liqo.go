package agent

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/borrowing"
	"github.com/bourse-dev/bourse/internal/agent/consumer/virtualnodepools"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/peering"
	"github.com/bourse-dev/bourse/internal/agent/peering/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/provider/lending"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	liqopeering "github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
)

// liqoOptions say which rooms those with Liqo work with.
type liqoOptions struct {
	Manager ctrl.Manager
	// Settings name the cluster (Member.ClusterID).
	Settings settings.Settings
	// Liqo is this cluster's. Nil: it has none that can be used.
	Liqo *liqowatch.Watch
	// Probe reads what this cluster's API server serves of Liqo's kinds.
	Probe     *liqo.Probe
	Consumers *posture.ConsumerList
	Addresses *peeraddress.Checker
	Inventory *inventory.Inventory
	Policy    *sharing.Policy
	Peers     *peers.Peers
	Messages  *peering.Messenger
	// Relay has the Ledger.
	Relay session.Relay
	// Peerings is the trigger of the controller of Peerings.
	Peerings *kubeobject.Trigger
}

// liqoRooms are how other rooms use those with Liqo: lending, borrowing, peering and VirtualNodePools. Where the
// cluster has no Liqo the fields are nil, but for Checks and Pools.
type liqoRooms struct {
	// FillCard, CheckReach and CheckBorrow are liqowatch's. Joins says that this cluster takes part
	// in networks.
	FillCard    func(*api.Properties, *api.Sharing)
	CheckReach  func(ctx context.Context, provider *api.Card, asked api.Request) error
	CheckBorrow func(ctx context.Context) error
	Joins       bool
	// Freed and Overstaying are those of lending.Usage. Volumes reads the volumes of what is offloaded; Offloading
	// is borrowing's.
	Freed       func(ctx context.Context, record *market.Reservation) (bool, error)
	Overstaying func() int
	Volumes     client.Reader
	Offloading  interface {
		Offload(ctx context.Context) error
		Unoffloads(ctx context.Context, ending *market.Reservation, at market.Time) ([]string, error)
		CheckNamespaces(ctx context.Context, request *api.ResourceRequest, provider *api.Card) error
	}
	// Follow is peering's. Liqo is the doctor's reader of Liqo, and Checks what the doctor looks at there.
	Follow func(ctx context.Context, record *market.Reservation) error
	Liqo   client.Reader
	Checks []doctor.Check
	// Pools says what VirtualNodePools would do. It is there without Liqo, too.
	Pools *virtualnodepools.Forecast

	Run         []room
	Controllers []controller
}

// newLiqoRooms returns the rooms of a cluster with Liqo. Without Liqo there is only the doctor's check of
// Liqo, unless that is off.
func newLiqoRooms(o liqoOptions) (r liqoRooms) {
	s, c, reader := &o.Settings, o.Manager.GetClient(), o.Manager.GetAPIReader()
	cluster, m := s.Member.ClusterID, o.Relay.Ledger
	r.Checks = o.checks()
	kept := o.pools()
	r.Pools = virtualnodepools.NewForecast(kept, o.Liqo != nil)
	if o.Liqo == nil {
		if s.Simulated.VirtualNodes {
			kept.Offload, kept.Serve = func(context.Context) error { return nil }, func(string) {}
			r.Controllers = []controller{virtualnodepools.New(kept)}
		}
		return r
	}
	graces := grant.Graces{Shrink: s.Times.Shrink, Excess: s.Times.Excess}
	net := &network.Network{
		Client: c, Reader: reader, Cluster: cluster, LiqoNamespace: s.Liqo.Namespace, Gateway: s.Gateway,
		Allows: o.Addresses.CheckHost,
	}
	policies := &posture.Policies{
		Known: c, Reader: reader, Writer: c, Namespace: s.Namespace, Account: s.Account, Cluster: cluster,
		Consumers: o.Consumers,
	}
	used := lending.NewUsage(lending.UsageOptions{
		Sharing: o.Policy.Sharing,
		Client:  c, Reader: reader, Namespace: s.Namespace, Market: m, Inventory: o.Inventory, Graces: graces,
		Events: o.Manager.GetEventRecorder("bourse-agent"), Clock: realClock, Log: s.Log,
	})
	lends := lending.New(lending.Options{
		Client: c, Reader: reader, Cluster: cluster, Market: m, Network: net, Policies: policies,
		Sharing: o.Policy.Sharing, Suspension: o.Peers.Suspension, Usage: used, Clock: realClock,
	})
	borrows := borrowing.New(borrowing.Options{
		Client: c, Reader: reader, Market: m, Relay: o.Relay, Network: net, Inventory: o.Inventory, Graces: graces,
		Peering: &liqopeering.Consumer{
			Client: c, Cluster: cluster, LiqoNamespace: s.Liqo.Namespace, Proxy: net.ProxyOf,
			Allows: o.Addresses.CheckURL, Clock: realClock,
		},
		Slices: &offload.Slices{
			Client: c, Reader: reader, LiqoNamespace: s.Liqo.Namespace, Guarded: policies.Stand,
		},
		Namespace: s.Namespace,
	})
	follows := borrowing.Follow{Borrowing: borrows, LookAgain: func(provider string, after time.Duration) {
		o.Peerings.AddAfter(s.Namespace, api.PeeringName(provider, api.RoleProvider), after)
	}}
	peerings := peering.New(peering.Options{
		Client: c, Namespace: s.Namespace, Market: m, Messages: o.Messages,
		Peers: o.Peers, Lending: lends, Borrowing: borrows,
		Graces: peering.Graces{Linger: s.Times.Linger, Abandon: s.Times.Abandon}, Trigger: o.Peerings, Clock: realClock,
	})
	kept.Offload = borrows.Offload
	kept.Serve = func(provider string) { o.Peerings.Add(s.Namespace, api.PeeringName(provider, api.RoleProvider)) }
	keeps := virtualnodepools.New(kept)
	r.FillCard, r.CheckReach, r.CheckBorrow = o.Liqo.FillCard, o.Liqo.CheckReach, o.Liqo.CheckBorrow
	r.Joins = s.Gateway.Joins()
	r.Freed, r.Overstaying, r.Follow, r.Liqo = used.Freed, used.Overstaying, peerings.Follow, reader
	r.Volumes, r.Offloading = reader, borrows
	r.Run, r.Controllers = []room{o.Liqo, used, follows}, []controller{peerings, lends, borrows, keeps}
	r.Checks = append(r.Checks,
		doctor.Check{About: "what is borrowed", Find: doctor.Borrowed{Client: c}.Find},
		doctor.Check{About: "peerings", Find: doctor.Peerings{
			Client: c, Reader: reader, Namespace: s.Namespace, Broker: o.Relay, Liqo: o.Liqo, Clock: realClock,
		}.Find},
		doctor.Check{About: "plain consumers", Find: lends.Refused},
		doctor.Check{About: "the way to the API server", Find: doctor.Access{
			Reader: reader, LiqoNamespace: s.Liqo.Namespace, Joins: r.Joins, Sharing: o.Policy.Sharing,
		}.Find},
	)
	return r
}

// checks are those that the doctor does with Liqo and without it.
func (o *liqoOptions) checks() (all []doctor.Check) {
	s, c, reader := &o.Settings, o.Manager.GetClient(), o.Manager.GetAPIReader()
	if !s.Liqo.Off && !s.Simulated.VirtualNodes {
		inspection := posture.Inspection{
			Reader: reader, Lists: c, Writer: c, Prove: true, Namespace: s.Namespace, Account: s.Account,
			LiqoNamespace: s.Liqo.Namespace, APIServer: s.Liqo.APIServer, Served: o.Probe.Served,
			Installed: func() (bool, error) { return liqo.Installed(o.Manager.GetRESTMapper()) },
		}
		check := doctor.Liqo{Sharing: o.Policy.Sharing, Inspection: inspection}
		all = append(all, doctor.Check{About: "Liqo", Find: check.Find},
			doctor.Check{About: "the amounts of Liqo's objects", Find: func(ctx context.Context) ([]api.Problem, error) {
				return s.Quantities.Problems(ctx, reader)
			}})
	}
	return append(all, doctor.Check{About: "VirtualNodePools", Find: doctor.Pools{Client: c}.Find})
}

// pools are the options of VirtualNodePools, without what needs Liqo.
func (o *liqoOptions) pools() virtualnodepools.Options {
	s := &o.Settings
	out := virtualnodepools.Options{
		Client: o.Manager.GetClient(), Reader: o.Manager.GetAPIReader(), Market: o.Relay.Ledger, Namespace: s.Namespace,
		Brokers: federation{o.Relay, o.Relay.Sessions, o.Liqo},
		Times:   virtualnodepools.Times{Clock: realClock, DeadAfter: s.Times.Dead},
		Pods:    &virtualnodepools.Watched{Manager: o.Manager, Usage: o.Inventory},
		Events:  o.Manager.GetEventRecorder("bourse-agent"),
	}
	if o.Liqo != nil {
		out.Liqo = o.Liqo.Installation
	}
	return out
}

// federation is what pools ask of brokers and providers.
type federation struct {
	session.Relay
	*session.Sessions
	liqo *liqowatch.Watch // nil: no provider can be measured
}

// Latency implements [virtualnodepools.Brokers].
func (f federation) Latency(ctx context.Context, provider string) (time.Duration, error) {
	if f.liqo == nil {
		return 0, nil
	}
	found, err := f.Cluster(ctx, provider)
	if err != nil {
		return 0, err
	}
	return f.liqo.Latency(ctx, &api.Card{Cluster: provider, Properties: found.Payload.Properties})
}
