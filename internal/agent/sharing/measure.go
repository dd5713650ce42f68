package sharing

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// measure measures the cluster and puts the measurement into the gate's books.
func (a *Advertiser) measure(ctx context.Context) (api.Measurement, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sequence.Number++
	m := api.Measurement{Sequence: a.sequence}
	var pools []api.PoolPolicy
	sharing := a.options.Policy.Sharing()
	if sharing != nil {
		terms := sharing.Terms
		if terms.Trust != api.TrustLegacy { // the broker decides by no other level
			terms.Trust = ""
		}
		m.Terms, pools = &terms, sharing.Pools
	}
	measured := a.options.Inventory.Measure(pools)
	m.Pools = measured.Pools
	if err := a.addCommitments(ctx, &m); err != nil {
		return m, err
	}
	a.card = a.options.Card.newCard(measured.Properties, sharing)
	internal, err := market.Measure(m)
	if err != nil {
		return m, err
	}
	return m, a.options.Market.Observe(ctx, a.options.Card.Cluster, internal, true)
}

// addCommitments adds the reservations that the gate has accepted to a measurement.
func (a *Advertiser) addCommitments(ctx context.Context, m *api.Measurement) error {
	cluster := a.options.Card.Cluster
	return a.options.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(cluster, 0) {
			if r.Provider == cluster && r.State.Counts() {
				addCommitment(m, r)
			}
		}
	})
}

func addCommitment(m *api.Measurement, r *market.Reservation) {
	pool := m.Pools[r.Pool]
	if pool.Accounts == nil {
		pool.Accounts = map[string]api.AccountUse{}
	}
	account := pool.Accounts[r.Consumer]
	if account.Commitments == nil {
		account.Commitments = map[string]api.Resources{}
	}
	account.Commitments[r.ID] = r.Takes().Resources()
	if r.Offer != nil {
		if account.Sold == nil {
			account.Sold = map[string]api.SoldUnits{}
		}
		account.Sold[r.ID] = api.SoldUnits{Offer: r.Offer.Signed.Name, Plan: r.Sale.Plan, Units: r.Units()}
	}
	pool.Accounts[r.Consumer] = account
	if m.Pools == nil {
		m.Pools = map[string]api.Pool{}
	}
	m.Pools[r.Pool] = pool
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
