package agent

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// shrink moves pods off the virtual nodes of which a part has ended while another goes on; what stays longer than the graces is
// deleted, as the provider does. Where all ends, Liqo itself drains the node.
func (b *borrow) shrink(ctx context.Context, accounts map[string][]loan) (waits []string, err error) {
	ending, err := b.ending(ctx)
	if err != nil {
		return nil, err
	}
	now := b.market.Now().Go()
	for slice, stay := range accounts {
		var late, overdue []loan
		for _, l := range ending[slice] {
			if now.Sub(l.Changed.Go()) > b.graces.shrink+b.graces.excess {
				overdue = append(overdue, l)
			} else {
				late = append(late, l)
			}
		}
		leave := slices.Concat(late, overdue)
		if len(leave) == 0 {
			continue
		}
		if len(overdue) > 0 { // at the provider they are gone already
			rest, err := keep(stay, late, overdue)
			if err != nil {
				return nil, err
			}
			if _, err := b.evictor.Fit(ctx, slice, rest, leaving(overdue, slices.Concat(stay, late)), true); err != nil {
				return nil, err
			}
		}
		rest, err := keep(stay, nil, leave)
		if err != nil {
			return nil, err
		}
		message, err := b.evictor.Fit(ctx, slice, rest, leaving(leave, stay), false)
		if err != nil {
			return nil, err
		}
		waits = append(waits, message)
	}
	return waits, nil
}

// ending are this cluster's loans that end, by their slice.
func (b *borrow) ending(ctx context.Context) (map[string][]loan, error) {
	ending := map[string][]loan{}
	err := b.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(b.cluster, 0) {
			if r.Bound() {
				r = b.givenUp(r)
			}
			if r != nil && r.Consumer == b.cluster && r.State == api.Releasing {
				ending[r.Slice()] = append(ending[r.Slice()], loan{Reservation: r})
			}
		}
	})
	return ending, err
}

// givenUp is the part that a loan has lost by becoming smaller, as long as pods may still have to go for it.
func (b *borrow) givenUp(r *market.Reservation) *market.Reservation {
	part := r.Ending()
	if part == nil || b.market.Now().Go().Sub(part.Changed.Go()) > 2*(b.graces.shrink+b.graces.excess) {
		return nil
	}
	return part
}

// keep is what pods of an account may use by what stays and by what still has graces, with 0 of what it only had by what leaves.
func keep(stay, late, leave []loan) (api.Resources, error) {
	out := api.Resources{}
	for name := range sizeOf(leave).Resources() {
		out[name] = resource.Quantity{}
	}
	rest, err := covers(sizeOf(stay), sizeOf(late))
	maps.Copy(out, rest.Resources())
	return out, err
}

func sizeOf(loans []loan) (sum market.Amounts) {
	for _, l := range loans {
		sum = sum.Plus(l.Size)
	}
	return sum
}

// leaving are the namespaces that only what ends has offloaded: as far as its request still says so, or by the
// namespace that it was made in.
func leaving(leave, stay []loan) (names []string) {
	kept := map[string]bool{}
	for _, l := range stay {
		for _, name := range namespacesOf(l) {
			kept[name] = true
		}
	}
	for _, l := range leave {
		for _, name := range namespacesOf(l) {
			if !kept[name] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func namespacesOf(l loan) []string {
	switch o := l.offload(); {
	case o != nil:
		return o.Namespaces
	case l.Object != nil:
		return []string{l.Object.Namespace}
	}
	return nil
}
