package agent

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// use is what an account is granted and uses, and how many reservations share it.
type use struct {
	granted, used api.Resources
	sharedBy      int
	namespaces    map[string]api.Resources
	// of is how many of the reservations are about a namespace, and whether the one that is looked at is one of them.
	of func(namespace string) (all int, this bool)
}

// into writes it into the status of a reservation of this size.
func (u use) into(s *api.InstructionStatus, size market.Amounts) {
	only := func(r api.Resources) api.Resources {
		out := api.Resources{}
		for name := range size.Resources() {
			out[name] = r[name] // 0 where there is nothing of it
		}
		return out
	}
	s.Granted, s.Used, s.SharedBy, s.Namespaces = only(u.granted), only(u.used), u.sharedBy, nil
	for _, name := range slices.Sorted(maps.Keys(u.namespaces)) {
		all, this := u.of(name)
		if all == 1 && !this {
			continue // it is another's
		}
		s.Namespaces = append(s.Namespaces, api.NamespaceUse{Name: name, Used: only(u.namespaces[name]), Shared: all != 1})
	}
}

// showUse shows beside each loan what its account is granted and uses.
func (b *borrow) showUse(ctx context.Context, slice string, loans []loan, granted api.Resources) error {
	u := use{granted: granted, used: b.inventory.UsedOn(slice), sharedBy: len(loans)}
	if len(u.used) > 0 {
		u.namespaces = b.inventory.UsedByNamespace("", slice)
	}
	for _, l := range loans {
		u.of = func(namespace string) (all int, this bool) {
			for _, other := range loans {
				if slices.Contains(namespacesOf(other), namespace) {
					all, this = all+1, this || other.ID == l.ID
				}
			}
			return all, this
		}
		if l.Object == nil {
			continue
		}
		var i api.ReservationInstruction
		if err := b.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.ID}, &i); err != nil {
			continue // it is not there yet, or no longer: it is a picture
		}
		before := i.DeepCopy()
		if u.into(&i.Status, l.Size); equality.Semantic.DeepEqual(before.Status, i.Status) {
			continue
		}
		if err := b.Status().Patch(ctx, &i, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// showUse shows beside each reservation of a consumer what its account is granted and uses.
func (l *lend) showUse(ctx context.Context, consumer string) error {
	accounts := map[string][]*market.Reservation{}
	if err := l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			if r.Provider == l.cluster && r.Consumer == consumer && r.Bound() {
				accounts[r.Slice()] = append(accounts[r.Slice()], r)
			}
		}
	}); err != nil {
		return err
	}
	for slice, all := range accounts {
		granted, err := grant.Told(ctx, l.Client, consumer, slice)
		if err != nil {
			return err
		}
		user := grant.User(slice, consumer)
		u := use{granted: granted, used: l.inventory.Used(user), sharedBy: len(all)}
		if len(u.used) > 0 {
			u.namespaces = l.inventory.UsedByNamespace(user, "")
		}
		u.of = func(string) (int, bool) { return len(all), true } // which of them a namespace is for, the consumer knows
		for _, r := range all {
			var i api.ProviderInstruction
			if err := l.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: r.ID}, &i); err != nil {
				continue
			}
			if granted == nil && i.Status.Granted == nil {
				continue // its slice is still to come, and soon
			}
			before := i.DeepCopy()
			if u.into(&i.Status, r.Size); equality.Semantic.DeepEqual(before.Status, i.Status) {
				continue
			}
			if err := l.Status().Patch(ctx, &i, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}
