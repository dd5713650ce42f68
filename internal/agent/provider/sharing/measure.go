package sharing

import (
	"context"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// measured is what the cluster has, and to whom the gate has lent it.
type measured struct {
	api.Measurement
	accepted []*market.Reservation
}

// measure measures the cluster and puts the measurement into the gate's books.
func (a *Advertiser) measure(ctx context.Context) (m measured, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sequence.Number++
	m.Sequence = a.sequence
	sharing := a.options.Policy.Sharing()
	properties, err := a.measureBy(ctx, sharing, &m)
	if err != nil {
		return m, err
	}
	a.card = a.options.Card.newCard(properties, sharing)
	internal, err := market.Measure(m.reportTo(nil))
	if err != nil {
		return m, err
	}
	return m, a.options.Market.Observe(ctx, a.options.Card.Cluster, internal, true)
}

// measureBy measures what a policy shares, nil for none.
func (a *Advertiser) measureBy(ctx context.Context, sharing *api.Sharing, m *measured) (api.Properties, error) {
	var pools []api.PoolPolicy
	var gpuLabels []string
	if sharing != nil {
		terms := sharing.Terms
		if terms.Trust != api.TrustLegacy { // the broker decides by no other level
			terms.Trust = ""
		}
		m.Terms, m.Brokers, pools = &terms, sharing.Brokers, sharing.Pools
		gpuLabels = sharing.GPULabels
	}
	made, err := a.virtualNodes(ctx)
	if err != nil {
		return api.Properties{}, err
	}
	found := a.options.Inventory.Measure(pools, made, gpuLabels...)
	m.Pools = found.Pools
	m.accepted, err = a.readAccepted(ctx)
	return found.Properties, err
}

// virtualNodes returns the virtual nodes that reservations made, with what both sides signed of each. This cluster
// lends no more of a virtual node, even if its provider's Liqo grants more. One is nil if this cluster may not lend on
// all of it.
func (a *Advertiser) virtualNodes(ctx context.Context) (made map[string]amounts.List, err error) {
	signed, kept := map[string]amounts.List{}, map[string]bool{}
	borrowed, err := a.options.Market.Borrowed(ctx)
	for _, r := range borrowed {
		if r.State.Over() || r.Provider == "" {
			continue
		}
		slice, size := r.Slice(), amounts.List(nil)
		if kept[slice] = kept[slice] || !r.Relend; r.Bound() {
			size = r.Size
		}
		signed[slice] = signed[slice].Plus(size)
	}
	made = map[string]amounts.List{}
	for slice, size := range signed {
		if made[slice] = nil; err == nil && !kept[slice] {
			made[slice], err = grant.Covers(size, nil)
		}
	}
	return made, err
}

// readAccepted returns the reservations that the gate has accepted.
func (a *Advertiser) readAccepted(ctx context.Context) ([]*market.Reservation, error) {
	lent, err := a.options.Market.Lent(ctx)
	return slices.DeleteFunc(lent, func(r *market.Reservation) bool { return !r.State.Counts() }), err
}

// status returns the newest measurement as the status of the Advertisement.
func (a *Advertiser) status() api.AdvertisementStatus {
	a.mu.Lock()
	status := api.AdvertisementStatus{
		Cluster: a.card.Cluster, Properties: a.card.Properties, Pools: map[string]api.Amounts{},
	}
	a.mu.Unlock()
	l := a.options.Market.View().Listing(a.options.Card.Cluster)
	if l == nil || l.Measured == nil {
		return status
	}
	for _, p := range l.Pools {
		m := l.Measured.Pools[p.Name]
		status.Pools[p.Name] = api.Amounts{
			Capacity: m.Capacity.Resources(), Allocatable: m.Allocatable.Resources(), Allocated: m.Allocated.Resources(),
			Shared: m.Shared.Resources(), Reserved: p.Reserved.Resources(), Available: p.Available.Resources(),
			Shapes: market.ShapesOf(m.Shapes),
		}
	}
	return status
}
