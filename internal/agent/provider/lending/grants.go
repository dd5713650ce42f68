package lending

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
)

// sliceNames returns the pools of a consumer by the names of its slices: one for each pool, and one
// for each reservation that it lends on. The pools are those that the policy shares, and those that
// were reserved before the policy changed.
func (l *Lending) sliceNames(ctx context.Context, consumer string) (map[string]string, error) {
	named := map[string]string{}
	add := func(pool string) { named[market.SliceName(consumer, l.options.Cluster, pool)] = pool }
	if s := l.options.Sharing(); s != nil {
		for _, p := range s.Pools {
			add(p.Name)
		}
	}
	for pool, c := range l.options.Sharing().PlainConsumers() {
		if c.Cluster == consumer {
			named[c.Slice] = pool
		}
	}
	lent, err := l.options.Market.Lent(ctx)
	for _, r := range lent {
		if r.Consumer == consumer && r.State.Counts() {
			add(r.Pool)
			named[r.Slice()] = r.Pool
		}
	}
	return named, err
}

// slices returns the slices that a consumer may have here.
func (l *Lending) slices(ctx context.Context, consumer string) ([]posture.Slice, error) {
	named, err := l.sliceNames(ctx, consumer)
	if err != nil {
		return nil, err
	}
	var all []posture.Slice
	for _, name := range slices.Sorted(maps.Keys(named)) {
		s := posture.Slice{Name: name, User: grant.User(name, consumer)}
		if p := l.options.Sharing().Pool(named[name]); p != nil {
			s.Placement = &posture.PodPlacement{Nodes: p.PodSelector(), Tolerates: p.TolerateTaints,
				StorageClasses: p.StorageClasses, RuntimeClasses: p.RuntimeClasses}
		}
		if s.CSR, err = peering.SliceCSR(consumer, name); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// owed returns what an account is to be granted: the sum of what is bound, and the max of a plain consumer.
// What has ended is not granted, though its pods may stay for the graces: otherwise pods that are moved away
// would be scheduled here again.
func (l *Lending) owed(ctx context.Context, consumer, slice string) (grant.Owed, bool, error) {
	a, err := l.options.Usage.Account(ctx, consumer, slice)
	if err != nil || a.Slice == "" {
		return grant.Owed{}, false, err
	}
	out := grant.Owed{Pool: a.Pool, Resources: a.Owed().Resources()}
	if a.Plain != nil {
		out.Unguarded = !l.holds(ctx, consumer)
		out.Reservations = []string{"plainConsumers of the SharingPolicy"}
	}
	for _, r := range a.Bound {
		out.Reservations = append(out.Reservations, r.ID)
	}
	slices.Sort(out.Reservations)
	return out, true, nil
}

// storage returns how many bytes of volumes a consumer has reserved, in all pools together. What ends counts
// until it is freed.
func (l *Lending) storage(ctx context.Context, consumer string) (total int64, err error) {
	all, err := l.options.Usage.Accounts(ctx, consumer)
	for _, a := range all {
		total += a.Owed().Of(string(corev1.ResourceStorage))
		for _, r := range a.Ending {
			total += r.Size.Of(string(corev1.ResourceStorage))
		}
	}
	return total, err
}

// granted returns what a consumer is granted in all pools together.
func (l *Lending) granted(ctx context.Context, consumer string) (api.Resources, error) {
	all, err := l.options.Usage.Accounts(ctx, consumer)
	if err != nil {
		return nil, err
	}
	sum := api.Resources{corev1.ResourceCPU: resource.Quantity{}, corev1.ResourceMemory: resource.Quantity{},
		corev1.ResourcePods: resource.Quantity{}}
	for _, a := range all {
		for name, amount := range grant.Grant(a.Owed().Resources()) {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	return sum, nil
}

// properties returns those on this cluster's card, none if it has no card yet.
func (l *Lending) properties() api.Properties {
	own := l.options.Market.View().Listing(l.options.Cluster)
	if own == nil {
		return api.Properties{}
	}
	return own.Card().Properties
}

// suspended returns why this cluster's admin has suspended a consumer, empty if it has not.
func (l *Lending) suspended(ctx context.Context, consumer string) (string, error) {
	s, err := l.options.Suspension(ctx, consumer)
	return s.Message, err
}
