package exchange

import (
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/internal/market"
)

// maxRemembered is how many changes of the catalog are kept. A reader that is further behind gets everything.
const maxRemembered = 1 << 14

// CatalogChange names a seller whose offers may have changed. The reader finds out what it may see.
type CatalogChange struct {
	Seller string
	// Lease says that only the seller's lease ended or began. The offers are the same.
	Lease bool

	revision uint64
}

// catalog is the log of changes, oldest first. All readers share it. Each reader has a cursor: the number of
// the next change to read.
type catalog struct {
	mu sync.Mutex
	// began is the revision from which on the log is complete, first the number of its first entry.
	began uint64
	first uint64
	log   []CatalogChange
}

func (c *catalog) add(changes []CatalogChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, changes...)
	if over := len(c.log) - maxRemembered; over > 0 {
		over += maxRemembered / 4 // drop many at once: each time copies the log
		c.began, c.first = c.log[over-1].revision+1, c.first+uint64(over)
		c.log = slices.Clone(c.log[over:])
	}
}

// begin empties the log. It is complete from a revision on.
func (c *catalog) begin(revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first += uint64(len(c.log))
	c.began, c.log = revision, nil
}

// after returns the cursor of a reader that has read everything up to a revision. The changes at
// that revision come again, because advertisements have no revision of their own. not ok: the log
// does not go back so far.
func (c *catalog) after(revision uint64) (number uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, _ := slices.BinarySearchFunc(c.log, revision, func(e CatalogChange, r uint64) int {
		if e.revision < r {
			return -1
		}
		return 1
	})
	return c.first + uint64(from), revision >= c.began
}

func (c *catalog) end() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first + uint64(len(c.log))
}

// since returns the changes from a cursor on, each seller once, and the next cursor. not ok: some are gone.
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
	index := map[string]int{}
	for _, e := range c.log[number-c.first:] {
		if i, twice := index[e.Seller]; twice {
			changes[i].Lease = changes[i].Lease && e.Lease
			continue
		}
		index[e.Seller] = len(changes)
		changes = append(changes, e)
	}
	return changes, next, true
}

// FollowCatalog adds the catalog to the watch: the changes since a revision of a lineage. complete
// reports that these are not known, so that the reader must list everything. Errors: Unavailable.
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
		x.followers[w] = struct{}{}
	})
	return complete, err
}

// Catalog returns the sellers that changed since the last call. everything reports that the reader
// must list the whole catalog again: its cluster may see other offers now, or it is too far behind.
// Next returns for changes of the catalog, too. Call Catalog before you read the view.
func (w *Watch) Catalog() (changes []CatalogChange, everything bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.follows {
		return nil, false
	}
	changes, next, ok := w.exchange.catalog.since(w.read)
	everything = !ok || w.restart
	if w.read, w.restart = next, false; everything {
		changes = nil
	}
	return changes, everything
}

// restartCatalog makes the reader list the whole catalog again.
func (w *Watch) restartCatalog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.follows {
		w.restart, w.woken = true, true
		w.signal()
	}
}

// notifyCatalog logs the sellers that events and advertisements changed, and wakes the watches that
// follow the catalog. The view with these changes must be published before.
func (x *Exchange) notifyCatalog(events []market.Event) {
	if x.options.Self != "" { // only a broker has a catalog
		return
	}
	for _, e := range events {
		x.changes = append(x.changes, changesBy(e, x.state)...)
		if e.Member != nil {
			for w := range x.subscribers[e.Member.Cluster] { // its new card may show it other offers
				w.restartCatalog()
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
	for w := range x.followers {
		w.Wake()
	}
}

// observed logs what an advertisement changed in the catalog.
func (x *Exchange) observed(cluster string, before, after market.Seller) {
	switch {
	case after.Offers == 0 || x.options.Self != "" || before.Same(after):
	case before.SameTo(after):
		x.changes = append(x.changes, CatalogChange{Seller: cluster, Lease: true})
	default:
		x.changes = append(x.changes, CatalogChange{Seller: cluster})
	}
}

// changesBy returns the sellers whose offers an event, and events before it, may have changed. s is the state
// after it.
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
