package exchange

import (
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/internal/market"
)

// maxRemembered is how many changes of the catalog are remembered. Who is further behind is told everything.
const maxRemembered = 1 << 14

// CatalogChange says that what a seller shows may be another now: to whom, its reader finds out.
type CatalogChange struct {
	Seller string
	// Lease says that only the seller's lease ended, or began: its offers are as they were.
	Lease bool

	revision uint64
}

// catalog remembers which sellers' offers changed, oldest first. All readers share it: of each is kept only how far it has read.
type catalog struct {
	mu sync.Mutex
	// began is the revision since when each change is in log; first is the number of log's first entry.
	began uint64
	first uint64
	log   []CatalogChange
}

func (c *catalog) add(changes []CatalogChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, changes...)
	if over := len(c.log) - maxRemembered; over > 0 {
		over += maxRemembered / 4 // some at once, so that it is seldom copied
		c.began, c.first = c.log[over-1].revision+1, c.first+uint64(over)
		c.log = slices.Clone(c.log[over:])
	}
}

// begin forgets all: from now on what changes after that revision is remembered.
func (c *catalog) begin(revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first += uint64(len(c.log))
	c.began, c.log = revision, nil
}

// after is the number of the first change that a reader may have missed who had read all up to a revision, its own changes included
// once more: what is no event has the revision of the last one. not ok: it is not remembered.
func (c *catalog) after(revision uint64) (number uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := slices.BinarySearchFunc(c.log, revision, func(e CatalogChange, r uint64) int {
		if e.revision < r {
			return -1
		}
		return 1
	})
	return c.first + uint64(at), revision >= c.began
}

func (c *catalog) end() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first + uint64(len(c.log))
}

// since are the changes from a number on, each seller once, and the number of the next one. not ok: some are forgotten.
func (c *catalog) since(number uint64) (changes []CatalogChange, next uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next = c.first + uint64(len(c.log))
	if number < c.first || number > next {
		return nil, next, false
	}
	if number == next {
		return nil, next, true
	}
	at := map[string]int{}
	for _, e := range c.log[number-c.first:] {
		if i, twice := at[e.Seller]; twice {
			changes[i].Lease = changes[i].Lease && e.Lease
			continue
		}
		at[e.Seller] = len(changes)
		changes = append(changes, e)
	}
	return changes, next, true
}

// FollowCatalog makes the watch tell of the catalog, too: of what changed since a revision of that lineage, or, where that is not
// known any more, of everything. complete says which. Errors: Unavailable.
func (w *Watch) FollowCatalog(ctx context.Context, lineage string, after uint64) (complete bool, err error) {
	x := w.exchange
	err = x.Read(ctx, func(s *market.State) {
		number, ok := x.catalog.after(after)
		if complete = !ok || lineage != x.head.Lineage || after > s.Revision || after == 0; complete {
			number = x.catalog.end()
		}
		w.mu.Lock()
		w.follows, w.read = true, number
		w.mu.Unlock()
		x.shoppers[w] = struct{}{}
	})
	return complete, err
}

// Catalog returns which sellers' offers changed since it was last asked, or that everything is to be told anew: its cluster is
// shown other offers now, or it is too far behind. Next returns for these, too. It comes before the revision that is told with them.
func (w *Watch) Catalog() (changes []CatalogChange, everything bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.follows {
		return nil, false
	}
	changes, next, ok := w.exchange.catalog.since(w.read)
	everything = !ok || w.anew
	if w.read, w.anew = next, false; everything {
		changes = nil
	}
	return changes, everything
}

// beginAnew has a watch that follows the catalog tell everything again.
func (w *Watch) beginAnew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.follows {
		w.anew, w.woken = true, true
		w.signal()
	}
}

// changed notes what events and advertisements changed of the catalog, and wakes those who follow it. It comes after the view that
// shows it was published.
func (x *Exchange) changed(events []market.Event) {
	if x.options.Self != "" { // an agent's Ledger has no customers
		return
	}
	for _, e := range events {
		x.changes = append(x.changes, changesBy(e, x.state)...)
		if e.Member != nil {
			for w := range x.subscribers[e.Member.Cluster] { // by another card it may be shown other offers
				w.beginAnew()
			}
		}
	}
	if len(x.changes) == 0 {
		return
	}
	for i := range x.changes {
		x.changes[i].revision = x.state.Revision
	}
	x.catalog.add(x.changes)
	x.changes = x.changes[:0]
	for w := range x.shoppers {
		w.Wake()
	}
}

// observed notes what an advertisement changed of how its cluster stands in the catalog.
func (x *Exchange) observed(cluster string, before, after market.Seller) {
	switch {
	case after.Offers == 0 || x.options.Self != "" || before.Same(after):
	case before.SameTo(after):
		x.changes = append(x.changes, CatalogChange{Seller: cluster, Lease: true})
	default:
		x.changes = append(x.changes, CatalogChange{Seller: cluster})
	}
}

// changesBy are the sellers whose offers an event, and those before it, may have changed; the state is as it is after them.
func changesBy(e market.Event, s *market.State) (out []CatalogChange) {
	for _, seller := range s.Resold() {
		out = append(out, CatalogChange{Seller: seller})
	}
	switch {
	case e.Member != nil && s.Seller(e.Member.Cluster, 0).Offers > 0:
		out = append(out, CatalogChange{Seller: e.Member.Cluster})
	case e.Leases != nil:
		for _, cluster := range e.Leases.Lost {
			if s.Seller(cluster, 0).Offers > 0 {
				out = append(out, CatalogChange{Seller: cluster, Lease: true})
			}
		}
	}
	return out
}
