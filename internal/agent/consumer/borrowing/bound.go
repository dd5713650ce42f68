package borrowing

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// bound is a reservation of this cluster that binds both sides, with the request that made it; nil if that
// is gone.
type bound struct {
	*market.Reservation
	request *api.ResourceRequest
	pool    *poolOf // that the request is for; nil: none
}

// poolOf is a VirtualNodePool, with the namespaces that it has.
type poolOf struct {
	*api.VirtualNodePool
	offload *api.Offload
}

// pools returns the VirtualNodePools by name.
func (b *Borrowing) pools(ctx context.Context) (map[string]*poolOf, error) {
	var list api.VirtualNodePoolList
	if err := b.options.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	owner, out := vnp.Owners(list.Items), map[string]*poolOf{}
	for i := range list.Items {
		pool := &list.Items[i]
		o := &api.Offload{Strategy: pool.Spec.Offload.Strategy, Reflect: pool.Spec.Offload.Reflect}
		for _, name := range pool.Spec.Namespaces {
			if owner[name] == pool.Name {
				o.Namespaces = append(o.Namespaces, name)
			}
		}
		out[pool.Name] = &poolOf{pool, o}
	}
	return out, nil
}

// checkAllowed reports whether a loan may offload a namespace: an admin names those of a VirtualNodePool.
func (b *Borrowing) checkAllowed(ctx context.Context, namespace string, l bound) error {
	if l.pool != nil {
		return nil
	}
	return offload.CheckAllowed(ctx, b.options.Client, namespace, l.request.Namespace)
}

// loans reads all loans of this cluster, the oldest first.
func (b *Borrowing) loans(ctx context.Context) ([]bound, error) {
	var all []bound
	pools, err := b.pools(ctx)
	if err != nil {
		return nil, err
	}
	borrowed, err := b.options.Market.Borrowed(ctx)
	for _, r := range borrowed {
		if r.Bound() {
			all = append(all, bound{Reservation: r})
		}
	}
	for i, l := range all {
		if err != nil || l.Object == nil {
			continue
		}
		var request api.ResourceRequest
		key := client.ObjectKey{Namespace: l.Object.Namespace, Name: l.Object.Name}
		if get := b.options.Client.Get(ctx, key, &request); client.IgnoreNotFound(get) != nil {
			err = get
		} else if get == nil && string(request.UID) == l.Object.UID {
			all[i].request = &request
			if request.Namespace == b.options.Namespace {
				all[i].pool = pools[request.Labels[api.VirtualNodePoolLabel]]
			}
		}
	}
	return all, err
}

// offload returns what the request says about namespaces, nil if nothing.
func (l bound) offload() *api.Offload {
	switch {
	case l.pool != nil:
		return l.pool.offload
	case l.request == nil:
		return nil
	}
	return l.request.Spec.Offload
}

// connected reports whether the request asks for a network.
func (l bound) connected() bool {
	return l.request != nil && l.request.Spec.Network == api.NetworkWireGuard
}

// namespaces returns the namespaces that a loan offloads: as its request says, or that of the
// request where it says nothing or is gone.
func (l bound) namespaces() []string {
	switch o := l.offload(); {
	case o != nil:
		return o.Namespaces
	case l.Object != nil:
		return []string{l.Object.Namespace}
	}
	return nil
}

// drains reports whether all of an account is about to end, and is emptied first.
func drains(loans []bound) bool {
	return len(loans) > 0 && !slices.ContainsFunc(loans, func(l bound) bool {
		return l.pool == nil || l.request.Annotations[vnp.DrainAnnotation] != "true"
	})
}

// wishOf returns the size that a slice asks for: the sum of loans. A VirtualNodePool wishes for less while it
// shrinks, and while one of its loans succeeds another: else pods would fill what ends.
func wishOf(loans []bound) (wish amounts.List) {
	first := firstOfPool(loans)
	if first < 0 {
		return sizeOf(loans)
	}
	var ofPool amounts.List
	for _, l := range loans {
		switch {
		case l.pool == nil && l.request == nil && l.Object != nil && l.Object.Namespace == loans[first].Object.Namespace:
			continue // it was the pool's, and ends
		case l.pool == nil:
			wish = wish.Plus(l.Size)
			continue
		}
		if less := vnp.ReadWish(l.request); less != nil && l.Size.Fits(less) {
			ofPool = ofPool.Max(less)
		} else {
			ofPool = ofPool.Max(l.Size)
		}
	}
	return wish.Plus(ofPool)
}

// firstOfPool returns the index of the first loan of a VirtualNodePool, -1 if there is none.
func firstOfPool(loans []bound) int {
	return slices.IndexFunc(loans, func(l bound) bool { return l.pool != nil })
}

// sizeOf returns the sum of loans.
func sizeOf(loans []bound) (sum amounts.List) {
	for _, l := range loans {
		sum = sum.Plus(l.Size)
	}
	return sum
}
