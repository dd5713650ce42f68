package borrowing

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// sharingPolicy is the name of the SharingPolicy that is in force.
const sharingPolicy = "default"

// useForCustomers adds the namespaces that Liqo made here for a hub's customers: their pods run on at
// the providers whose virtual nodes the hub lends on. What was offloaded once stays so until its
// namespace ends, even if the SharingPolicy is gone: pods never leave because nothing is said.
func (b *Borrowing) useForCustomers(ctx context.Context, all []bound, uses map[string]*offload.Use) error {
	offloaded, err := b.namespaces.Customers(ctx, b.options.Client)
	if err != nil {
		return err
	}
	hub, err := b.hub(ctx)
	if err != nil || hub == nil && len(offloaded) == 0 {
		return err
	}
	providers, err := b.relending(ctx, hub, all)
	if err != nil {
		return err
	}
	mapped, err := b.mapped(ctx, hub, offloaded)
	for _, ns := range mapped {
		u := &offload.Use{Namespace: ns, Requested: true, Customer: offloaded[ns]}
		if u.Providers = providers; hub == nil {
			if u.Providers, err = b.namespaces.Labelled(ctx, ns); err != nil {
				return err
			}
		}
		u.Providers = slices.DeleteFunc(slices.Clone(u.Providers), func(p string) bool { return p == u.Customer.ID })
		uses[ns] = u
	}
	return err
}

// mapped returns the namespaces to offload for customers, and names in offloaded those that are not
// yet: of clusters that have something of the hub.
func (b *Borrowing) mapped(ctx context.Context, hub *api.PoolPolicy,
	offloaded map[string]offload.Customer) (out []string, err error) {
	customers, err := b.customers(ctx)
	if err != nil {
		return nil, err
	}
	var list corev1.NamespaceList
	if err := b.options.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	fresh := false
	for i := range list.Items {
		ns := &list.Items[i]
		if !guard.Mapped(ns) || ns.DeletionTimestamp != nil || strings.HasPrefix(ns.Name, liqo.HubPrefix) {
			continue
		}
		guarded := func(c api.PlainConsumer) bool { return c.Cluster == liqo.Peer(ns) && ns.Labels[guard.Label] == "true" }
		if _, ok := offloaded[ns.Name]; !ok &&
			(hub == nil || !customers[liqo.Peer(ns)] && !slices.ContainsFunc(hub.PlainConsumers, guarded)) {
			continue
		} else if !ok && !fresh { // the cache may lag
			known, err := b.namespaces.Customers(ctx, b.options.Reader)
			if err != nil {
				return nil, err
			}
			maps.Copy(offloaded, known)
			fresh = true
		}
		if offloaded[ns.Name].ID == "" {
			if offloaded[ns.Name], err = b.namespaces.NewCustomer(liqo.Peer(ns), offloaded); err != nil {
				return nil, err
			}
		}
		out = append(out, ns.Name)
	}
	return out, nil
}

// hub returns the pool of virtual nodes that this cluster lends on, nil if it is no hub.
func (b *Borrowing) hub(ctx context.Context) (*api.PoolPolicy, error) {
	var policy api.SharingPolicy
	err := b.options.Client.Get(ctx, client.ObjectKey{Name: sharingPolicy}, &policy)
	return policy.Spec.Hub(), client.IgnoreNotFound(err)
}

// relending returns the providers of the virtual nodes that the hub lends on: those with a loan that says so,
// and those of peerings made by hand that the hub names. What was reserved is over where no loan is left, and
// its virtual nodes are about to go.
func (b *Borrowing) relending(ctx context.Context, hub *api.PoolPolicy, all []bound) (out []string, err error) {
	if hub == nil {
		return nil, nil
	}
	selected, err := b.namespaces.Selected(ctx, hub.VirtualNodes.Selector.MatchLabels)
	for node, provider := range selected {
		relends := func(l bound) bool { return l.Provider == provider && l.Relend }
		named := func(h api.HandMadeNode) bool { return h.Node == node }
		if slices.ContainsFunc(all, relends) || slices.ContainsFunc(hub.VirtualNodes.ByHand, named) {
			out = append(out, provider)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// customers returns the clusters that have something of this one.
func (b *Borrowing) customers(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	lent, err := b.options.Market.Lent(ctx)
	for _, r := range lent {
		if r.State.Counts() {
			out[r.Consumer] = true
		}
	}
	return out, err
}
