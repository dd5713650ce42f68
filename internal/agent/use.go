package agent

import (
	"context"

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
	s.Granted, s.Used, s.SharedBy = only(u.granted), only(u.used), u.sharedBy
}

// showUse shows beside each loan what its account is granted and uses.
func (b *borrow) showUse(ctx context.Context, slice string, loans []loan, granted api.Resources) error {
	u := use{granted, b.inventory.UsedOn(slice), len(loans)}
	for _, l := range loans {
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
		u := use{granted, l.inventory.Used(grant.User(slice, consumer)), len(all)}
		for _, r := range all {
			var i api.ProviderInstruction
			if err := l.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: r.ID}, &i); err != nil {
				continue
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
