package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/handshake"
	"github.com/bourse-dev/bourse/internal/agent/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/peers"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
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
func (a *agent) useLiqo(cluster string, addresses *peeraddress.Checker, policy *sharing.Policy, messenger *handshake.Messenger, relay transport.Broker, m *exchange.Exchange, known *peers.Peers, inv *inventory.Inventory, changed *kubeobject.Trigger, log *slog.Logger) (*peerings, error) {
	c := a.mgr.GetClient()
	net := &network.Network{Client: c, Reader: a.mgr.GetAPIReader(), Cluster: cluster, LiqoNamespace: a.LiqoNamespace, Gateway: a.gateway, Allows: addresses.CheckHost}
	l := &lend{
		Client: c, cluster: cluster, namespace: a.Namespace, market: m, inventory: inv, sharing: policy.Sharing,
		reader: a.mgr.GetAPIReader(), graces: a.graces(), late: &a.late, log: log, isOpen: map[string]bool{}, proofs: map[string]proof{}, listed: map[string]told{}, tried: map[string]tried{}, began: m.Now().Go(), network: net,
		policies: &posture.Policies{Known: c, Reader: a.mgr.GetAPIReader(), Writer: c, Namespace: a.Namespace, Cluster: cluster},
	}
	a.late.events = a.mgr.GetEventRecorder("bourse-agent")
	l.peering, l.suspends = &peering.Provider{Client: c, Access: l.access}, known.Suspension
	p := &peerings{
		Client: c, cluster: cluster, namespace: a.Namespace, market: m, messenger: messenger, peers: known, linger: a.Linger, abandon: a.Abandon, log: log,
		changed: changed, lend: l, waits: debounce.New[doing](nil), network: net,
		borrow: &borrow{
			network: net, networks: map[string]network.Standing{},
			Client: c, cluster: cluster, market: m, broker: relay,
			peering:    &peering.Consumer{Client: c, Cluster: cluster, LiqoNamespace: a.LiqoNamespace, Proxy: net.ProxyOf, Allows: addresses.CheckURL},
			slices:     &offload.Slices{Client: c, Reader: a.mgr.GetAPIReader(), LiqoNamespace: a.LiqoNamespace, Guarded: l.policies.Stand},
			namespaces: &offload.Namespaces{Client: c, Cluster: cluster},
			evictor:    &offload.Evictor{Reader: a.mgr.GetAPIReader(), Client: c},
			graces:     a.graces(),
			inventory:  inv,
			looked:     map[string]time.Time{},
			suspended:  map[string]metav1.Condition{},
			waits:      debounce.New[string](nil),
		},
	}
	if err := a.controlPeerings(p); err != nil {
		return nil, err
	}
	if err := a.controlGuards(l); err != nil {
		return nil, err
	}
	return p, a.controlGrants(p, l)
}

// controlGuards looks at a namespace when it, or what guards it, changes, and at all when the policy does.
func (a *agent) controlGuards(l *lend) error {
	g := &guard.Guard{Client: a.mgr.GetClient(), Reader: a.mgr.GetAPIReader(), Sharing: l.sharing, Storage: l.storage, Granted: l.granted}
	mapped := func(ctx context.Context, of ...client.ListOption) (out []reconcile.Request) {
		var list corev1.NamespaceList
		if err := a.mgr.GetClient().List(ctx, &list, of...); err != nil {
			return nil
		}
		for _, ns := range list.Items {
			if guard.Mapped(&ns) {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: ns.Name}})
			}
		}
		return out
	}
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return mapped(ctx) })
	consumers := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return mapped(ctx, liqo.Of(o.(*api.ProviderInstruction).Spec.Consumer))
	})
	sharers := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var ns corev1.Namespace
		if !liqo.Ours(o) || a.mgr.GetClient().Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, &ns) != nil || liqo.Peer(&ns) == "" {
			return nil
		}
		return mapped(ctx, liqo.Of(liqo.Peer(&ns))) // what one uses is not for the others
	})
	of := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if !liqo.Ours(o) {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(a.mgr).Named("guard").For(&corev1.Namespace{}).
		Watches(&api.SharingPolicy{}, all).Watches(liqo.Tenant(), all).Watches(liqo.Configuration(), all).
		Watches(&api.ProviderInstruction{}, consumers).
		Watches(&corev1.ResourceQuota{}, sharers).Watches(&corev1.LimitRange{}, of).Watches(&networkingv1.NetworkPolicy{}, of).
		Complete(g)
}

func (a *agent) graces() graces { return graces{a.ShrinkGrace, a.ExcessGrace} }

// controlPeerings looks at a peering when anything of Liqo's changes that it is about.
func (a *agent) controlPeerings(p *peerings) error {
	of := func(roles ...api.PeeringRole) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			var out []reconcile.Request
			for _, role := range roles {
				if peer := liqo.Peer(o); peer != "" {
					out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: api.PeeringName(peer, role)}})
				}
			}
			return out
		})
	}
	borrowing := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) (out []reconcile.Request) {
		var list api.PeeringList
		_ = a.mgr.GetClient().List(ctx, &list, client.InNamespace(a.Namespace))
		for _, object := range list.Items {
			if object.Spec.Role == api.RoleProvider {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&object)})
			}
		}
		return out
	})
	return ctrl.NewControllerManagedBy(a.mgr).Named("peering").For(&api.Peering{}).
		WatchesRawSource(p.changed).
		Watches(&api.Peer{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: api.PeeringName(o.GetName(), api.RoleConsumer)}}}
		})).
		Watches(liqo.Tenant(), of(api.RoleConsumer)).
		Watches(liqo.Identity(), of(api.RoleProvider)).
		Watches(liqo.ResourceSlice(), of(api.RoleProvider, api.RoleConsumer)).
		Watches(liqo.VirtualNode(), of(api.RoleProvider)).
		Watches(liqo.Offloading(), borrowing).
		Watches(&corev1.Node{}, of(api.RoleProvider)).
		Watches(liqo.Configuration(), of(api.RoleProvider, api.RoleConsumer)).
		Watches(liqo.GatewayServer(), of(api.RoleProvider, api.RoleConsumer)).
		Watches(liqo.GatewayClient(), of(api.RoleProvider, api.RoleConsumer)).
		Watches(liqo.PublicKey(), of(api.RoleProvider, api.RoleConsumer)).
		Watches(liqo.Connection(), of(api.RoleProvider, api.RoleConsumer)).
		Complete(p)
}

// controlGrants looks at a slice when it changes, and at all slices of a consumer when the Ledger changes.
func (a *agent) controlGrants(p *peerings, l *lend) error {
	granter := &grant.Granter{Client: a.mgr.GetClient(), Cluster: l.cluster, Owed: l.owed, Region: func() string {
		own := l.market.View().Listing(l.cluster)
		if own == nil {
			return ""
		}
		return own.Card().Properties.Region
	}, Pool: func(name string) *api.PoolPolicy { return l.sharing().Pool(name) }, Suspended: func(ctx context.Context, consumer string) (string, error) {
		s, err := l.suspends(ctx, consumer)
		return s.Message, err
	}}
	of := func(consumer func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) (out []reconcile.Request) {
			namespace, err := liqo.TenantNamespace(ctx, a.mgr.GetClient(), consumer(o))
			if err != nil || namespace == "" {
				return nil
			}
			slices, _ := grant.Slices(ctx, a.mgr.GetClient(), client.InNamespace(namespace))
			for _, slice := range slices {
				out = append(out, reconcile.Request{NamespacedName: slice})
			}
			return out
		})
	}
	return ctrl.NewControllerManagedBy(a.mgr).Named("grant").For(liqo.ResourceSlice()).
		Watches(liqo.Tenant(), of(liqo.Peer)).
		Watches(&api.Peer{}, of(client.Object.GetName)).
		Watches(&api.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			i := o.(*api.ProviderInstruction)
			namespace, err := liqo.TenantNamespace(ctx, a.mgr.GetClient(), i.Spec.Consumer)
			if err != nil || namespace == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: i.Spec.Slice}}}
		})).
		Watches(&api.SharingPolicy{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			slices, _ := grant.Slices(ctx, a.mgr.GetClient())
			var out []reconcile.Request
			for _, slice := range slices {
				out = append(out, reconcile.Request{NamespacedName: slice})
			}
			return out
		})).
		Complete(granter)
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
