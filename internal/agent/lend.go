package agent

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
)

// lend is what a provider's agent does with Liqo: peerings in which others borrow, and what they are granted.
type lend struct {
	client.Client
	cluster   string
	namespace string // the agent's
	market    *exchange.Exchange
	inventory *inventory.Inventory
	peering   *peering.Provider
	network   *network.Network
	policies  *posture.Policies
	sharing   func() *api.Sharing
	reader    client.Reader // from the API server
	graces    graces
	log       *slog.Logger
	proven    time.Time       // when the policies last denied
	isOpen    map[string]bool // the peerings that are
}

// graces are how long pods may stay that a reservation no longer covers.
type graces struct {
	// shrink is how long a grant outlives a reservation that pods still use, so that the consumer can move them.
	shrink time.Duration
	// excess is how long pods may then stay beyond the grant, until they are deleted.
	excess time.Duration
}

// proofLasts is how long the proof that the policies deny holds for peerings that are open already. Each that opens asks anew.
const proofLasts = time.Minute

func (l *lend) open(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error) {
	if !l.isOpen[peer] || time.Since(l.proven) > proofLasts {
		if err := l.policies.InForce(ctx); err != nil {
			return peering.Progress{}, err
		}
		l.proven = time.Now()
		if err := posture.Collides(ctx, l.policies.Reader, peer); err != nil {
			return peering.Progress{}, err
		}
	}
	progress, err := l.peer(ctx, peer, heard)
	l.isOpen[peer] = err == nil && progress.Open
	return progress, err
}

// peer opens a peering under policies that are in force.
func (l *lend) peer(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error) {
	if byHand, err := l.peering.ByHand(ctx, peer); err != nil {
		return peering.Progress{}, err
	} else if !byHand { // one made by hand goes on as it is
		s := l.sharing()
		if err := l.policies.List(ctx, peer, s != nil && s.Namespaces != nil && s.Namespaces.RequireLimits); err != nil {
			return peering.Progress{}, err
		}
	}
	progress, err := l.peering.Open(ctx, peer, heard)
	if err != nil || !progress.Open || progress.ByHand {
		return progress, err
	}
	return progress, l.policies.Allow(ctx, peer, l.slice(peer), progress.SliceCSR)
}

// slice is the name of the only slice that a consumer has here, as long as there is one pool.
func (l *lend) slice(consumer string) string {
	return market.SliceName(consumer, l.cluster, api.GeneralPool)
}

// serve shows what is used, and takes back what was given up: slices are granted as they come.
func (l *lend) serve(ctx context.Context, peer string) (string, error) {
	if err := l.showUse(ctx, peer); err != nil {
		return "", err
	}
	slice := l.slice(peer)
	a, err := l.account(ctx, peer, slice)
	if err != nil {
		return "", err
	}
	rest := a.owed()
	for _, part := range a.ending {
		if rest.Fits(l.used(peer, slice).Only(part.Size)) || slices.IndexFunc(a.bound, func(r *market.Reservation) bool { return r.ID == part.ID }) < 0 {
			continue
		}
		if l.overdue(part) {
			err = l.takeBack(ctx, part, rest)
		}
		return "pods use what " + peer + " has given up", err
	}
	return "", nil
}

// overdue says whether pods may no longer use what ends.
func (l *lend) overdue(r *market.Reservation) bool {
	return l.market.Now().Go().Sub(r.Changed.Go()) >= l.graces.shrink+l.graces.excess
}

func (l *lend) close(ctx context.Context, peer string, force bool) (bool, error) {
	done, err := l.peering.Close(ctx, peer, force)
	if err != nil || !done {
		return false, err
	}
	delete(l.isOpen, peer)
	return true, l.policies.Unlist(ctx, peer)
}

// account is what the Ledger says of one: what is bound, and what is ending.
type account struct {
	bound, ending []*market.Reservation
}

func (a account) owed() market.Amounts {
	var sum market.Amounts
	for _, r := range a.bound {
		sum = sum.Plus(r.Size)
	}
	return sum
}

// account reads the account whose slice has this name.
func (l *lend) account(ctx context.Context, consumer, slice string) (a account, err error) {
	err = l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			switch {
			case r.Provider != l.cluster || r.Consumer != consumer || r.Slice() != slice:
			case r.Bound():
				a.bound = append(a.bound, r)
				if part := r.Ending(); part != nil {
					a.ending = append(a.ending, part)
				}
			case r.State == api.Releasing:
				a.ending = append(a.ending, r)
			}
		}
	})
	return a, err
}

// used is what the pods of an account request.
func (l *lend) used(consumer, slice string) market.Amounts {
	used, err := market.Have("used", l.inventory.Used(grant.User(slice, consumer)))
	if err != nil {
		return nil
	}
	return used
}

// owed is what an account is to be granted: the sum of what is bound, and, for a grace, of what ends while pods use it.
func (l *lend) owed(ctx context.Context, consumer, slice string) (grant.Owed, bool, error) {
	a, err := l.account(ctx, consumer, slice)
	if err != nil || len(a.bound)+len(a.ending) == 0 {
		return grant.Owed{}, false, err
	}
	sum, counted := a.owed(), a.bound
	if used := l.used(consumer, slice); !sum.Fits(used.Only(sum.Plus(sumOf(a.ending)))) {
		now := l.market.Now().Go()
		for _, r := range a.ending {
			if now.Sub(r.Changed.Go()) < l.graces.shrink {
				sum, counted = sum.Plus(r.Size), append(slices.Clone(counted), r)
			}
		}
	}
	out := grant.Owed{Pool: slices.Concat(a.bound, a.ending)[0].Pool, Resources: sum.Resources(), Ending: len(counted) > len(a.bound)}
	for _, r := range counted {
		out.Reservations = append(out.Reservations, r.ID)
	}
	slices.Sort(out.Reservations)
	out.Reservations = slices.Compact(out.Reservations)
	return out, true, nil
}

func sumOf(all []*market.Reservation) market.Amounts { return account{bound: all}.owed() }

// takeBack deletes what pods still take beyond what is left of an account.
func (l *lend) takeBack(ctx context.Context, ours *market.Reservation, rest market.Amounts) error {
	keep := api.Resources{}
	for name := range ours.Size.Resources() {
		keep[name] = resource.Quantity{} // what nobody has reserved any more
	}
	maps.Copy(keep, rest.Resources())
	n, err := grant.TakeBack(ctx, l.reader, l.Client, grant.User(ours.Slice(), ours.Consumer), keep)
	if n > 0 {
		l.log.Warn("pods stayed longer than what they were lent: deleted", "consumer", ours.Consumer, "reservation", ours.ID, "pods", n)
	}
	return err
}

// freed says whether nothing is left of a reservation that ends: neither is it granted, nor do pods use it.
func (l *lend) freed(ctx context.Context, ours *market.Reservation) (bool, error) {
	slice := ours.Slice()
	a, err := l.account(ctx, ours.Consumer, slice)
	if err != nil {
		return false, err
	}
	rest := a.owed()
	if !rest.Fits(l.used(ours.Consumer, slice).Only(ours.Size)) {
		if !l.overdue(ours) {
			return false, nil
		}
		return false, l.takeBack(ctx, ours, rest)
	}
	told, err := grant.Told(ctx, l.Client, ours.Consumer, slice)
	if err != nil {
		return false, err
	}
	granted, err := market.Have("granted", told)
	if err != nil {
		return false, err
	}
	return rest.Fits(granted.Only(ours.Size)), nil
}
