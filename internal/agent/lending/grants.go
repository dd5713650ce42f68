package lending

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
)

// pools returns the pools that a consumer may use: those that the policy shares, and those that were reserved
// before the policy changed.
func (l *Lending) pools(ctx context.Context, consumer string) ([]string, error) {
	var pools []string
	if s := l.options.Sharing(); s != nil {
		for _, p := range s.Pools {
			pools = append(pools, p.Name)
		}
	}
	err := l.options.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.options.Cluster, 0) {
			if r.Provider == l.options.Cluster && r.Consumer == consumer && r.State.Counts() {
				pools = append(pools, r.Pool)
			}
		}
	})
	slices.Sort(pools)
	return slices.Compact(pools), err
}

// slices returns the slices that a consumer may have here, one for each pool.
func (l *Lending) slices(ctx context.Context, consumer string) ([]posture.Slice, error) {
	pools, err := l.pools(ctx, consumer)
	var all []posture.Slice
	for _, pool := range pools {
		if err != nil {
			return nil, err
		}
		s := posture.Slice{Name: market.SliceName(consumer, l.options.Cluster, pool)}
		s.User = grant.User(s.Name, consumer)
		if p := l.options.Sharing().Pool(pool); p != nil {
			s.Places = &posture.Places{Nodes: p.NodeSelector, Tolerates: p.TolerateTaints,
				StorageClasses: p.StorageClasses, RuntimeClasses: p.RuntimeClasses}
		}
		s.CSR, err = peering.SliceCSR(consumer, s.Name)
		all = append(all, s)
	}
	return all, err
}

// owed returns what an account is to be granted: the sum of what is bound. What has ended is not
// granted, though its pods may stay for the graces: otherwise pods that are moved away would be
// scheduled here again.
func (l *Lending) owed(ctx context.Context, consumer, slice string) (grant.Owed, bool, error) {
	a, err := l.options.Usage.Account(ctx, consumer, slice)
	if err != nil || len(a.All()) == 0 {
		return grant.Owed{}, false, err
	}
	out := grant.Owed{Pool: a.All()[0].Pool, Resources: a.Owed().Resources()}
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
		for _, r := range a.All() {
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

// region returns the region on this cluster's card, empty if it is not known.
func (l *Lending) region() string {
	own := l.options.Market.View().Listing(l.options.Cluster)
	if own == nil {
		return ""
	}
	return own.Card().Properties.Region
}

// suspended returns why this cluster's admin has suspended a consumer, empty if it has not.
func (l *Lending) suspended(ctx context.Context, consumer string) (string, error) {
	s, err := l.options.Suspension(ctx, consumer)
	return s.Message, err
}
