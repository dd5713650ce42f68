package match

import (
	"slices"
	"sync/atomic"
)

// book remembers something of each cluster of a market, by slot. Its pages are immutable,
// so that decisions read it without a lock; one that finds an entry out of date makes a new
// page. Of two that do so at once one is lost, and what it learned is learned again.
type book[T any] struct {
	pages atomic.Pointer[[]*page[T]]
}

const pageSize = 64

type page[T any] [pageSize]T

// reading is one decision's reading of a book, in the order of slots.
type reading[T any] struct {
	book    *book[T]
	read    *[]*page[T] // as it was when the reading began
	pages   []*page[T]
	own     int // the page that this reading made last, or -1
	changed bool
	blank   T
}

func (b *book[T]) open() reading[T] {
	r := reading[T]{book: b, read: b.pages.Load(), own: -1}
	if r.read != nil {
		r.pages = *r.read
	}
	return r
}

// at is the entry of a slot, or a blank one. It must not be written.
func (r *reading[T]) at(slot int) *T {
	if i := slot / pageSize; i < len(r.pages) && r.pages[i] != nil {
		return &r.pages[i][slot%pageSize]
	}
	return &r.blank
}

// put makes an entry what is remembered of a slot.
func (r *reading[T]) put(slot int, entry T) *T {
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

// close lets later readings know what this one learned. The book keeps the pages, and not the reading: else each would keep the one before.
func (r *reading[T]) close() {
	if r.changed {
		pages := r.pages
		r.book.pages.CompareAndSwap(r.read, &pages)
	}
}
