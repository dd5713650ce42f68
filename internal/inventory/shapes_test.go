package inventory

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
)

// However many nodes there are, and however different: shapes are few, no pod is said to have more
// nodes than it has, and of each resource more than half of what the best node has is said.
func TestShapesAreFewAndErrLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := byHand(t, Options{})
		resources := []string{"cpu", "memory", "gpu"}
		var free []map[string]int64
		best := map[string]int64{}
		for n := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			has := map[string]int64{}
			pairs := []string{"pods", "110"}
			for _, r := range resources {
				has[r] = rapid.Int64Range(0, 1<<20).Draw(t, r) >> rapid.IntRange(0, 20).Draw(t, "small")
				best[r] = max(best[r], has[r])
				if has[r] > 0 {
					pairs = append(pairs, r, fmt.Sprint(has[r]))
				}
			}
			free = append(free, has)
			must(t, i.nodes.Add(aNode(fmt.Sprint("n", n), pairs...)))
		}
		shapes := i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool].Shapes
		if len(shapes) > maxShapes {
			t.Fatalf("%d shapes", len(shapes))
		}
		fits := func(pod, has map[string]int64) bool {
			for r, need := range pod {
				if has[r] < need {
					return false
				}
			}
			return true
		}
		said := map[string]int64{}
		for range 20 {
			pod := map[string]int64{}
			for _, r := range resources {
				pod[r] = rapid.Int64Range(0, 1<<20).Draw(t, r) >> rapid.IntRange(0, 21).Draw(t, "small")
			}
			promised, real := int64(0), int64(0)
			for _, s := range shapes {
				has := map[string]int64{}
				for name, q := range s.Free {
					has[string(name)] = q.Value()
					said[string(name)] = max(said[string(name)], q.Value())
				}
				if fits(pod, has) {
					promised += s.Nodes
				}
			}
			for _, has := range free {
				if fits(pod, has) {
					real++
				}
			}
			if promised > real {
				t.Fatalf("a pod of %v is promised %d nodes, and %d have room", pod, promised, real)
			}
		}
		for r, v := range best {
			if said[r] > v || 2*said[r] <= v && v > 0 {
				t.Fatalf("the best node has %d %s, said is %d", v, r, said[r])
			}
		}
	})
}

// What changes little changes no shape: nothing is said again.
func TestASmallPodChangesNoShape(t *testing.T) {
	i := many(t)
	shapes := func() string {
		out := ""
		for _, s := range i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool].Shapes {
			out += fmt.Sprint(s.Nodes, " ", s.Free.Cpu().String(), " ", s.Free.Memory().String(), "; ")
		}
		return out
	}
	before := shapes()
	must(t, i.pods.Add(aPod("small", "node-7", "cpu", "10m", "memory", "1Mi")))
	if after := shapes(); after != before || before == "" {
		t.Errorf("before %s, after %s", before, after)
	}
	must(t, i.pods.Add(aPod("large", "node-7", "cpu", "30", "memory", "1Mi")))
	if after := shapes(); after == before {
		t.Errorf("a large pod does not show: %s", after)
	}
}
