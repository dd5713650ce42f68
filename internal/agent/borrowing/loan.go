package borrowing

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// loan is a reservation of this cluster that both sides are bound by, with the request that made
// it; nil if that is gone.
type loan struct {
	*market.Reservation
	request *api.ResourceRequest
}

// loans reads all loans of this cluster, the oldest first.
func (b *Borrowing) loans(ctx context.Context) ([]loan, error) {
	var all []loan
	err := b.options.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(s.Self, 0) {
			if r.Consumer == s.Self && r.Bound() {
				all = append(all, loan{Reservation: r})
			}
		}
	})
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
		}
	}
	return all, err
}

// offload returns what the request says about namespaces, nil if nothing.
func (l loan) offload() *api.Offload {
	if l.request == nil {
		return nil
	}
	return l.request.Spec.Offload
}

// connected reports whether the request asks for a network.
func (l loan) connected() bool {
	return l.request != nil && l.request.Spec.Network == api.NetworkWireGuard
}

// namespaces returns the namespaces that a loan offloads: as its request says, or that of the
// request where it says nothing or is gone.
func (l loan) namespaces() []string {
	switch o := l.offload(); {
	case o != nil:
		return o.Namespaces
	case l.Object != nil:
		return []string{l.Object.Namespace}
	}
	return nil
}

// sizeOf returns the sum of loans.
func sizeOf(loans []loan) (sum market.Amounts) {
	for _, l := range loans {
		sum = sum.Plus(l.Size)
	}
	return sum
}
