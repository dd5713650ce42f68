// Package fairshare bounds what several parties keep in memory together, so that none takes the share of another.
//
// Start at [Admit].
package fairshare

import (
	"cmp"
	"slices"
)

// Bound is how many bytes each party may keep at most, and all together.
type Bound struct{ Each, All int }

// NewBound returns a bound: each party keeps at most `each` bytes, and all together keep at most `most`, or limit/part
// if that is less. limit is the limit on the memory of the process.
func NewBound(each, most, limit, part int64) Bound {
	all := min(most, limit/part)
	return Bound{Each: int(min(each, all)), All: int(all)}
}

// Party keeps something within a Bound.
type Party interface {
	comparable
	// Size returns how many bytes the party keeps.
	Size() int
	// Shrink drops some of it, until Size is at most so many bytes.
	Shrink(most int)
}

// Admit reports whether a party may keep size bytes more. all are the parties within the same bound. Those that keep
// something have equal shares of Bound.All, of at most Bound.Each. A party may keep more than its share as long as
// there is room. If another needs its share, the largest shrink to theirs.
func Admit[P Party](b Bound, party P, size int, all []P) bool {
	parties, free := 1, b.All-party.Size()
	for _, other := range all {
		if held := other.Size(); other != party && held > 0 {
			parties++
			free -= held
		}
	}
	share := min(b.Each, b.All/parties)
	switch held := party.Size(); {
	case size > b.Each-held:
		return false
	case size > free && size > share-held:
		return false
	}
	for size > free {
		largest := slices.MaxFunc(all, func(x, y P) int { return cmp.Compare(x.Size(), y.Size()) })
		before := largest.Size()
		if before <= share {
			return false
		}
		largest.Shrink(share)
		free += before - largest.Size()
	}
	return true
}
