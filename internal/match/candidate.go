package match

import (
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
	"github.com/bourse-dev/bourse/internal/market"
)

// candidate is a cluster with the facts that filters need of it for one pool and a list of resources.
type candidate struct {
	*market.Listing
	// alwaysPasses are the bits of the filters that it passes for every request.
	alwaysPasses uint32
	// liqo is the protocol of its Liqo; liqoText the same as one text, which is fast to compare.
	liqo     liqoprotocol.Protocol
	liqoText string
	// capacities are those of the requested resources, in their order.
	capacities []capacity
	// pool is the requested one; nil: the cluster does not have it.
	pool *market.PoolListing
	card *api.Card
}

// capacity is what a pool has of a resource.
type capacity struct{ available, shared int64 }

// kind returns what candidates depend on besides the cluster: the requested pool and the names of
// the resources.
func (a *Ask) kind() string {
	var b strings.Builder
	b.WriteString(a.Request.Pool)
	for i := range a.Size {
		b.WriteByte(' ')
		b.WriteString(a.Size[i].Resource)
	}
	return b.String()
}

func newCandidate(l *market.Listing, a *Ask) *candidate {
	c := &candidate{Listing: l, pool: l.Pool(a.Request.Pool), capacities: make([]capacity, len(a.Size))}
	if l.Member != nil {
		c.card = l.Member.Card
		c.liqo, c.liqoText = protocolOf(c.card)
	}
	if l.Measured != nil && c.pool != nil {
		shared := l.Measured.Pools[c.pool.Name].Shared
		for i, need := range a.Size {
			c.capacities[i] = capacity{c.pool.Available.Of(need.Resource), shared.Of(need.Resource)}
		}
	}
	for i := range filters {
		if passes := filters[i].alwaysPasses; passes != nil && passes(c) {
			c.alwaysPasses |= 1 << i
		}
	}
	return c
}
