package match

import (
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// candidate is a cluster with the facts that most filters read, next to each other: with thousands
// of clusters, most time goes into fetching memory.
type candidate struct {
	*market.Listing
	freshUntil market.Time
	gone       bool // see market.Listing.Gone
	// alwaysPasses are the bits of the filters that it passes for every request.
	alwaysPasses uint32
	slot         int32
	liqo         int32 // see minor
	uptime       int32 // in parts per million
	honoured     int32 // the same
	// capacities are of the first requested resources, more of the others.
	capacities [3]capacity
	more       []capacity
	// pool is the requested one; nil: the cluster does not have it.
	pool     *market.PoolListing
	card     *api.Card
	sequence api.Sequence
}

// capacity is what a pool has of a resource.
type capacity struct{ available, shared int64 }

// capacityOf returns the capacity of the i-th requested resource.
func (c *candidate) capacityOf(i int) capacity {
	if i < len(c.capacities) {
		return c.capacities[i]
	}
	return c.more[i-len(c.capacities)]
}

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

func newCandidate(l *market.Listing, a *Ask) candidate {
	c := candidate{
		Listing: l, slot: int32(l.Slot), gone: l.Gone(), uptime: int32(l.Uptime), honoured: int32(l.Honoured),
		freshUntil: l.FreshUntil, pool: l.Pool(a.Request.Pool),
	}
	if l.Member != nil {
		c.card = l.Member.Card
		c.liqo = minor(c.card)
	}
	var available, shared market.Amounts
	if l.Measured != nil {
		c.sequence = l.Measured.Sequence
		if c.pool != nil {
			available, shared = c.pool.Available, l.Measured.Pools[c.pool.Name].Shared
		}
	}
	for i, need := range a.Size {
		has := capacity{available.Of(need.Resource), shared.Of(need.Resource)}
		if i < len(c.capacities) {
			c.capacities[i] = has
		} else {
			c.more = append(c.more, has)
		}
	}
	for i := range filters {
		if passes := filters[i].alwaysPasses; passes != nil && passes(&c) {
			c.alwaysPasses |= 1 << i
		}
	}
	return c
}
