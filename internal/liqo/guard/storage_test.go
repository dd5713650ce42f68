package guard

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPart(t *testing.T) {
	for name, c := range map[string]struct {
		total   int64
		own     held
		others  []held
		sharers int
		want    int64
	}{
		"alone, all of it":                             {100, held{}, nil, 1, 100},
		"two that use nothing":                         {100, held{50, 0}, []held{{50, 0}}, 2, 50},
		"the other may take all still":                 {100, held{}, []held{{100, 0}}, 2, 0},
		"the first becomes less":                       {100, held{100, 0}, []held{{}}, 2, 50},
		"what is used, and half of what is free":       {100, held{50, 40}, []held{{30, 0}}, 2, 70},
		"the other keeps what it uses":                 {100, held{50, 0}, []held{{70, 40}}, 2, 30},
		"it uses more than there is":                   {10, held{50, 40}, nil, 1, 10},
		"the others use more than there is":            {10, held{0, 0}, []held{{40, 40}}, 2, 0},
		"one that is going counts, and shares no more": {100, held{50, 0}, []held{{30, 30}}, 1, 70},
	} {
		if got := part(c.total, c.own, c.others, c.sharers); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// In any order of events, the namespaces never may take more together than there is, and in the end all of it
// can be used.
func TestPartsAreNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, n := rapid.Int64Range(1, 1000).Draw(t, "total"), rapid.IntRange(1, 5).Draw(t, "namespaces")
		all := make([]held, n)
		noticed := make([]int64, n) // what Kubernetes has taken note of
		said := make([]int64, n)
		look := func(i int) {
			all[i].may = max(said[i], noticed[i], all[i].used)
			var others []held
			for j := range all {
				if j != i {
					all[j].may = max(said[j], noticed[j], all[j].used)
					others = append(others, all[j])
				}
			}
			said[i] = part(total, all[i], others, n)
		}
		sum := func() (may int64) {
			for i := range all {
				may += max(said[i], noticed[i], all[i].used)
			}
			return may
		}
		t.Repeat(map[string]func(*rapid.T){
			"look":   func(t *rapid.T) { look(rapid.IntRange(0, n-1).Draw(t, "at")) },
			"notice": func(t *rapid.T) { i := rapid.IntRange(0, n-1).Draw(t, "at"); noticed[i] = said[i] },
			"take": func(t *rapid.T) {
				i := rapid.IntRange(0, n-1).Draw(t, "at")
				all[i].used += rapid.Int64Range(0, max(0, noticed[i]-all[i].used)).Draw(t, "size")
			},
			"give back": func(t *rapid.T) {
				i := rapid.IntRange(0, n-1).Draw(t, "at")
				all[i].used -= rapid.Int64Range(0, all[i].used).Draw(t, "size")
			},
			"": func(t *rapid.T) {
				if sum() > total {
					t.Fatalf("%d of %d: %+v, said %v, noticed %v", sum(), total, all, said, noticed)
				}
			},
		})
		for range 20 * n { // one needs all that is left
			for i := range all {
				look(i)
				noticed[i] = said[i]
			}
			all[0].used = max(all[0].used, noticed[0])
		}
		left := total
		for i := range all {
			left -= all[i].used
		}
		if left >= int64(n) {
			t.Fatalf("%d are left that nobody gets: %+v", left, all)
		}
	})
}
