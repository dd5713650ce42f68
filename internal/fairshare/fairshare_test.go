package fairshare_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bourse-dev/bourse/internal/fairshare"
)

// hoard is a party that keeps items of some sizes.
type hoard struct {
	items []int
	size  int
	want  int // what it shows in all
}

func (h *hoard) Size() int { return h.size }

func (h *hoard) Shrink(most int) {
	for ; h.size > most; h.items = h.items[:len(h.items)-1] {
		h.size -= h.items[len(h.items)-1]
	}
}

func (h *hoard) show(b fairshare.Bound, size int, all []*hoard) (kept bool) {
	h.want += size
	if kept = fairshare.Admit(b, h, size, all); kept {
		h.items, h.size = append(h.items, size), h.size+size
	}
	return kept
}

// In any order, a party that shows no more than its share is kept whole. The bounds hold after each step, and
// nobody is denied what there is room for.
func TestEachPartyIsSureOfItsShare(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := fairshare.Bound{Each: 10 + r.IntN(100), All: 50 + r.IntN(200)}
		all := make([]*hoard, 1+r.IntN(8))
		for i := range all {
			all[i] = &hoard{}
		}
		for range 300 {
			h, size := all[r.IntN(len(all))], 1+r.IntN(12)
			if r.IntN(50) == 0 { // it shows all again
				*h = hoard{}
			}
			before := 0
			for _, other := range all {
				before += other.size
			}
			fits := h.size+size <= b.Each && before+size <= b.All
			if kept := h.show(b, size, all); fits && !kept {
				t.Fatalf("seed %d: %d more is denied, although all keep only %d of %d", seed, size, before, b.All)
			}
			sum := 0
			for _, other := range all {
				if sum += other.size; other.size > b.Each {
					t.Fatalf("seed %d: one keeps %d of %d", seed, other.size, b.Each)
				}
				if share := min(b.Each, b.All/len(all)); other.want <= share && other.size != other.want {
					t.Fatalf("seed %d: of %d within a share of %d only %d are kept", seed, other.want, share, other.size)
				}
			}
			if sum > b.All {
				t.Fatalf("seed %d: all keep %d of %d", seed, sum, b.All)
			}
		}
	}
}
