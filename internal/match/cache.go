package match

import "sync/atomic"

// slotCache caches a value for each cluster of a market, by slot. Decisions read and replace the values
// without a lock. If two decisions replace a value at once, one of the two is computed again.
type slotCache[T any] struct {
	values atomic.Pointer[[]atomic.Pointer[T]]
}

// open returns the values of at least size slots.
func (c *slotCache[T]) open(size int) []atomic.Pointer[T] {
	known := c.values.Load()
	if known != nil && len(*known) >= size {
		return *known
	}
	values := make([]atomic.Pointer[T], size)
	if known != nil {
		for slot := range *known {
			values[slot].Store((*known)[slot].Load())
		}
	}
	c.values.CompareAndSwap(known, &values)
	return values
}
