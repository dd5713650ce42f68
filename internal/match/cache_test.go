package match

import (
	"runtime"
	"testing"
	"weak"
)

// A reading is garbage once it is closed: what it learned is in the book, and nothing else of it.
func TestABookKeepsNoReadings(t *testing.T) {
	b := &slotCache[int]{}
	var closed []weak.Pointer[cacheReading[int]]
	for i := range 10 {
		r := new(cacheReading[int])
		*r = b.open()
		r.put(i, i)
		r.close()
		closed = append(closed, weak.Make(r))
	}
	runtime.GC()
	for i, r := range closed {
		if r.Value() != nil {
			t.Errorf("reading %d of %d is still there", i, len(closed))
		}
	}
	if last := b.open(); *last.at(3) != 3 {
		t.Error("it has forgotten what was learned")
	}
}
