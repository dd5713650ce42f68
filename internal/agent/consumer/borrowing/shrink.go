package borrowing

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// shrink moves pods off the virtual nodes of accounts that have ended in part. It deletes what
// stays longer than the graces, as the provider does. Where all of an account ends, Liqo drains the
// node. It returns what it waits for.
func (b *Borrowing) shrink(ctx context.Context, accounts map[string][]bound) (waits []string, err error) {
	ending, err := b.ending(ctx)
	if err != nil {
		return nil, err
	}
	now, graces := b.options.Market.Now().Go(), b.options.Graces
	for slice, stay := range accounts {
		var late, overdue []bound
		for _, l := range ending[slice] {
			if now.Sub(l.Changed.Go()) > graces.Shrink+graces.Excess {
				overdue = append(overdue, l)
			} else {
				late = append(late, l)
			}
		}
		leave := slices.Concat(late, overdue)
		if len(leave) == 0 {
			continue
		}
		if len(overdue) > 0 { // the provider has deleted these pods already
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

// ending returns the loans that end, and the parts that loans gave up, by their slice.
func (b *Borrowing) ending(ctx context.Context) (map[string][]bound, error) {
	ending := map[string][]bound{}
	borrowed, err := b.options.Market.Borrowed(ctx)
	for _, r := range borrowed {
		if r.Bound() {
			r = b.givenUp(r)
		}
		if r != nil && r.State == api.Releasing {
			ending[r.Slice()] = append(ending[r.Slice()], bound{Reservation: r})
		}
	}
	return ending, err
}

// givenUp returns the part that a loan gave up by becoming smaller, while pods may still have to go
// because of it.
func (b *Borrowing) givenUp(r *market.Reservation) *market.Reservation {
	part := r.Ending()
	if part == nil ||
		b.options.Market.Now().Go().Sub(part.Changed.Go()) > 2*(b.options.Graces.Shrink+b.options.Graces.Excess) {
		return nil
	}
	return part
}

// keep returns what pods of an account may use: what stays, what still has graces, and 0 of the
// resources that only what leaves has.
func keep(stay, late, leave []bound) (api.Resources, error) {
	out := api.Resources{}
	for name := range sizeOf(leave).Resources() {
		out[name] = resource.Quantity{}
	}
	rest, err := grant.Covers(sizeOf(stay), sizeOf(late))
	maps.Copy(out, rest.Resources())
	return out, err
}

// leaving returns the namespaces that only loans that leave have offloaded.
func leaving(leave, stay []bound) (names []string) {
	kept := map[string]bool{}
	for _, l := range stay {
		for _, name := range l.namespaces() {
			kept[name] = true
		}
	}
	for _, l := range leave {
		for _, name := range l.namespaces() {
			if !kept[name] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
