package match

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// candidate is a cluster on its way through the filters: its listing, and next to each other
// what most decisions look at. With thousands of clusters fetching memory is what takes the
// time, so a filter that can decide without following a pointer should.
type candidate struct {
	*market.Listing
	freshUntil market.Time
	// settled are the filters, by their bits, that it passes whoever asks.
	settled uint32
	slot    int32
	usual   [len(usualResources)]room
	// pool is the asked one, nil if the cluster has none of that name.
	pool     *market.PoolListing
	card     *api.Card
	sequence api.Sequence
}

// room is what a pool has of a resource.
type room struct{ available, shared int64 }

// usualResources are those that most requests ask for.
var usualResources = [...]string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"}

func newCandidate(l *market.Listing, pool string) candidate {
	c := candidate{Listing: l, slot: int32(l.Slot), freshUntil: l.FreshUntil, pool: l.Pool(pool)}
	if l.Member != nil {
		c.card = l.Member.Card
	}
	if l.Measured != nil {
		c.sequence = l.Measured.Sequence
	}
	for i, resource := range usualResources {
		c.usual[i] = c.room(resource)
	}
	for i := range filters {
		if settled := filters[i].settled; settled != nil && settled(&c) {
			c.settled |= 1 << i
		}
	}
	return c
}

func (c *candidate) room(resource string) room {
	if c.pool == nil || c.Measured == nil {
		return room{}
	}
	return room{c.pool.Available.Of(resource), c.Measured.Pools[c.pool.Name].Shared.Of(resource)}
}

// need is one resource of an ask.
type need struct {
	market.Amount
	usual int // its place in usualResources, or -1
}

func needsOf(size market.Amounts) []need {
	out := make([]need, len(size))
	for i, amount := range size {
		out[i] = need{amount, slices.Index(usualResources[:], amount.Resource)}
	}
	return out
}

// of is what a candidate has of the needed resource.
func (n *need) of(c *candidate) room {
	if n.usual >= 0 {
		return c.usual[n.usual]
	}
	return c.room(n.Resource)
}
