package transport

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// HTTP reaches a broker by its REST API over mTLS.
type HTTP struct {
	*client.Client
	cluster string

	mu   sync.Mutex
	last *api.Measurement // the measurement that the broker has, as far as we know
}

var _ Broker = (*HTTP)(nil)

// NewHTTP makes the transport of a cluster.
func NewHTTP(cluster string, c *client.Client) *HTTP { return &HTTP{Client: c, cluster: cluster} }

// PutCard sends this cluster's newest signed card.
func (h *HTTP) PutCard(ctx context.Context, signed string) error {
	return h.Client.PutCard(ctx, h.cluster, signed)
}

// Publish puts a signed offer of this cluster on sale.
func (h *HTTP) Publish(ctx context.Context, name, signed string) error {
	return h.PublishOffer(ctx, h.cluster, name, signed)
}

// Withdraw takes an offer of this cluster off sale.
func (h *HTTP) Withdraw(ctx context.Context, name string) error {
	return h.WithdrawOffer(ctx, h.cluster, name)
}

// Advertise sends the changes since the last advertisement, or all if the broker lacks the last one.
func (h *HTTP) Advertise(ctx context.Context, m api.Measurement) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delta, ok := difference(h.last, m); ok {
		err := h.PatchAdvertisement(ctx, h.cluster, delta)
		if api.CodeOf(err) != api.CodeStaleAdvertisement {
			return h.sent(m, err)
		}
	}
	return h.sent(m, h.PutAdvertisement(ctx, h.cluster, m))
}

// sent records the measurement that the broker has; after an error that is unknown.
func (h *HTTP) sent(m api.Measurement, err error) error {
	h.last = nil
	if err == nil {
		h.last = m.DeepCopy() // the caller may change it later
	}
	return err
}

// difference returns the delta from old to m; false if only a complete advertisement can express it.
func difference(old *api.Measurement, m api.Measurement) (api.MeasurementDelta, bool) {
	if old == nil || !equality.Semantic.DeepEqual(old.Terms, m.Terms) {
		return api.MeasurementDelta{}, false
	}
	d := api.MeasurementDelta{Base: old.Sequence, Sequence: m.Sequence, Pools: map[string]*api.PoolDelta{}}
	for name := range old.Pools {
		if _, still := m.Pools[name]; !still {
			d.Pools[name] = nil
		}
	}
	for name, pool := range m.Pools {
		before, known := old.Pools[name]
		if known && equality.Semantic.DeepEqual(before, pool) {
			continue
		}
		change, ok := poolDifference(before, pool)
		if !ok {
			return d, false
		}
		d.Pools[name] = &change
	}
	return d, true
}

func poolDifference(old, p api.Pool) (api.PoolDelta, bool) {
	d := api.PoolDelta{Accounts: map[string]*api.AccountUse{}}
	for _, part := range []struct {
		before, now api.Resources
		to          *api.Resources
	}{
		{old.Capacity, p.Capacity, &d.Capacity}, {old.Allocatable, p.Allocatable, &d.Allocatable},
		{old.Allocated, p.Allocated, &d.Allocated}, {old.Shared, p.Shared, &d.Shared},
	} {
		if equality.Semantic.DeepEqual(part.before, part.now) {
			continue
		}
		if len(part.now) == 0 { // a delta names what exists, so it cannot express that all is gone
			return d, false
		}
		*part.to = part.now
	}
	if !equality.Semantic.DeepEqual(old.Shapes, p.Shapes) {
		if len(p.Shapes) == 0 {
			return d, false
		}
		d.Shapes = p.Shapes
	}
	if !equality.Semantic.DeepEqual(old.Elsewhere, p.Elsewhere) {
		if d.Elsewhere = p.Elsewhere; d.Elsewhere == nil {
			d.Elsewhere = &api.Elsewhere{}
		}
	}
	for consumer := range old.Accounts {
		if _, still := p.Accounts[consumer]; !still {
			d.Accounts[consumer] = nil
		}
	}
	for consumer, account := range p.Accounts {
		if before, known := old.Accounts[consumer]; !known || !equality.Semantic.DeepEqual(before, account) {
			d.Accounts[consumer] = &account
		}
	}
	return d, true
}
