package match

import (
	"slices"
	"sync/atomic"
)

// slotCache caches a value for each cluster of a market, by slot. Its pages are immutable, so decisions
// read it without a lock. A decision that finds a stale entry makes a new page. If two decisions do so at
// once, one page is lost, and its values are computed again.
type slotCache[T any] struct {
	pages atomic.Pointer[[]*page[T]]
}

const pageSize = 64

type page[T any] [pageSize]T

// cacheReading is one decision's access to a slotCache, in the order of slots.
type cacheReading[T any] struct {
	book    *slotCache[T]
	read    *[]*page[T] // as it was when the reading began
	pages   []*page[T]
	own     int // the page that this reading made last, or -1
	changed bool
	blank   T
}

func (b *slotCache[T]) open() cacheReading[T] {
	r := cacheReading[T]{book: b, read: b.pages.Load(), own: -1}
	if r.read != nil {
		r.pages = *r.read
	}
	return r
}

// at returns the entry of a slot, or a zero one. The caller must not write to it.
func (r *cacheReading[T]) at(slot int) *T {
	if i := slot / pageSize; i < len(r.pages) && r.pages[i] != nil {
		return &r.pages[i][slot%pageSize]
	}
	return &r.blank
}

// put replaces the entry of a slot.
func (r *cacheReading[T]) put(slot int, entry T) *T {
	if !r.changed {
		r.pages, r.changed = slices.Clone(r.pages), true
	}
	i := slot / pageSize
	for i >= len(r.pages) {
		r.pages = append(r.pages, nil)
	}
	if r.own != i {
		copied := page[T]{}
		if r.pages[i] != nil {
			copied = *r.pages[i]
		}
		r.pages[i], r.own = &copied, i
	}
	at := &r.pages[i][slot%pageSize]
	*at = entry
	return at
}

// close stores what this reading computed. The cache keeps the pages but not the reading, which
// would keep the one before it.
func (r *cacheReading[T]) close() {
	if r.changed {
		pages := r.pages
		r.book.pages.CompareAndSwap(r.read, &pages)
	}
}
