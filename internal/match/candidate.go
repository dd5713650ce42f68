package match

import (
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// candidate is a cluster on its way through the filters: its listing, and next to each other
// what most decisions look at. With thousands of clusters fetching memory is what takes the
// time, so a filter that can decide without following a pointer should.
type candidate struct {
	*market.Listing
	freshUntil market.Time
	order      order // of its name
	gone       bool  // see market.Listing.Gone
	// settled are the filters, by their bits, that it passes whoever asks.
	settled uint32
	slot    int32
	liqo    int32 // see minor
	uptime  int32 // in parts per million
	// honoured is, too.
	honoured int32
	// rooms are what it has of the first resources asked for, more of the others.
	rooms [3]room
	more  []room
	// pool is the asked one, nil if the cluster has none of that name.
	pool     *market.PoolListing
	card     *api.Card
	sequence api.Sequence
}

// room is what a pool has of a resource.
type room struct{ available, shared int64 }

// room is that of the i-th resource asked for.
func (c *candidate) room(i int) room {
	if i < len(c.rooms) {
		return c.rooms[i]
	}
	return c.more[i-len(c.rooms)]
}

// kind is what candidates depend on besides the cluster: the pool and the resources asked for.
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
		Listing: l, order: orderOf(l.Cluster), slot: int32(l.Slot), gone: l.Gone(), uptime: int32(l.Uptime), honoured: int32(l.Honoured), freshUntil: l.FreshUntil, pool: l.Pool(a.Request.Pool),
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
		has := room{available.Of(need.Resource), shared.Of(need.Resource)}
		if i < len(c.rooms) {
			c.rooms[i] = has
		} else {
			c.more = append(c.more, has)
		}
	}
	for i := range filters {
		if settled := filters[i].settled; settled != nil && settled(&c) {
			c.settled |= 1 << i
		}
	}
	return c
}
