package sharing

import (
	"context"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// Preview returns what a SharingPolicy would change if it were in force now. others are the clusters that a broker
// shows. It changes nothing. Errors: Invalid, with the field; those of the Ledger.
func (a *Advertiser) Preview(ctx context.Context, next api.Sharing,
	others []api.Envelope[api.Cluster]) (out api.SharingPreview, err error) {
	now := a.options.Policy.Sharing()
	if err := check(&next, a.options.Policy.options.Engine); err != nil {
		return out, err
	}
	out = api.SharingPreview{Pools: map[string]api.SharingChange{}, LoseSight: []string{}, GainSight: []string{},
		Holders: []string{}}
	before, m, err := a.showBy(ctx, now)
	if err != nil {
		return out, err
	}
	after, _, err := a.showBy(ctx, &next)
	if err != nil {
		return out, err
	}
	for name, is := range before {
		out.Pools[name] = api.SharingChange{Now: &is}
	}
	for name, is := range after {
		out.Pools[name] = api.SharingChange{Now: out.Pools[name].Now, Then: &is}
	}
	for _, other := range a.audience(others, m.accepted, next.VisibleTo, ptr.Deref(now, api.Sharing{}).VisibleTo) {
		sees, would := now != nil && match.Among(&now.VisibleTo, other), match.Among(&next.VisibleTo, other)
		switch {
		case sees && !would:
			out.LoseSight = append(out.LoseSight, other.Cluster)
			if slices.ContainsFunc(m.accepted, func(r *market.Reservation) bool { return r.Consumer == other.Cluster }) {
				out.Holders = append(out.Holders, other.Cluster)
			}
		case would && !sees:
			out.GainSight = append(out.GainSight, other.Cluster)
		}
	}
	return out, nil
}

// audience returns who may see this cluster or not: the clusters that a broker shows, and the consumers of reservations.
// A consumer that shares nothing is not shown. Its labels are not known, so it is left out if they matter.
func (a *Advertiser) audience(shown []api.Envelope[api.Cluster], accepted []*market.Reservation,
	by ...api.Audience) (all []*api.Card) {
	has := map[string]bool{a.options.Card.Cluster: true}
	for _, c := range shown {
		if !has[c.ID] {
			has[c.ID], all = true, append(all, &api.Card{Cluster: c.ID, Properties: c.Payload.Properties})
		}
	}
	if slices.ContainsFunc(by, func(a api.Audience) bool { return len(a.Labels) > 0 }) {
		return all
	}
	for _, r := range accepted {
		if !has[r.Consumer] {
			has[r.Consumer], all = true, append(all, &api.Card{Cluster: r.Consumer})
		}
	}
	return all
}

// showBy returns what this cluster would show of its pools by a policy, nil for none. The gate's books stay as they
// are: it measures into a copy.
func (a *Advertiser) showBy(ctx context.Context, policy *api.Sharing) (map[string]api.Amounts, measured, error) {
	m := measured{}
	a.mu.Lock()
	m.Sequence = a.sequence
	a.mu.Unlock()
	m.Sequence.Number += 1 << 20 // later than what the copy knows
	if _, err := a.measureBy(ctx, policy, &m); err != nil {
		return nil, m, err
	}
	internal, err := market.Measure(m.reportTo(nil))
	if err != nil {
		return nil, m, err
	}
	_, data, err := a.options.Market.Snapshot(ctx)
	if err != nil {
		return nil, m, err
	}
	books := market.New(a.options.Card.Cluster)
	if err := books.Restore(data); err != nil {
		return nil, m, err
	}
	if err := books.Observe(a.options.Card.Cluster, internal, a.options.Market.Now(), true); err != nil {
		return nil, m, err
	}
	shown := map[string]api.Amounts{}
	listing := books.Publish(nil).Listing(a.options.Card.Cluster)
	if listing == nil {
		return shown, m, nil
	}
	for name := range m.Pools {
		shared := api.Amounts{Shared: internal.Pools[name].Shared.Resources()}
		if p := listing.Pool(name); p != nil {
			shared.Reserved, shared.Available = p.Reserved.Resources(), p.Available.Resources()
		}
		shown[name] = shared
	}
	return shown, m, nil
}
