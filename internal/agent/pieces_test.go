package agent

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
)

// Whatever is held already, after the pods that are too much have gone and those that are missing have come, exactly what is wanted is held,
// in pieces of which four fit on each node, and no more pods than that takes.
func TestPlaceholdersHoldExactlyTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, most int64) market.Amounts {
			return market.Amounts{
				{Resource: "cpu", Value: rapid.Int64Range(0, most).Draw(t, what+" cpu")},
				{Resource: "memory", Value: rapid.Int64Range(0, most<<20).Draw(t, what+" memory")},
				{Resource: "nvidia.com/gpu", Value: rapid.Int64Range(0, 8).Draw(t, what+" gpu")},
			}
		}
		reserved := draw("reserved", 64000)
		rooms := []inventory.Room{{Allocatable: api.Resources(draw("node", 32000).Resources())}}
		want := reserved.Minus(draw("used", 80000)) // more may be used than is reserved
		size := unit(reserved, rooms)
		a := &held{slice: "b-general", pool: api.PoolPolicy{Placeholders: &api.Placeholders{}}}
		for i := range rapid.IntRange(0, 80).Draw(t, "have") {
			a.have = append(a.have, newPlaceholder(a, draw("have", 4000).Beyond(nil)))
			if rapid.Bool().Draw(t, "placed") {
				a.have[i].Spec.NodeName = "n"
			}
		}
		missing, excess := compare(want, size, a.have)
		var held market.Amounts
		for _, pod := range a.have {
			held = held.Plus(requestsOf(pod))
		}
		for _, pod := range excess {
			held = held.Minus(requestsOf(pod))
		}
		for _, piece := range missing {
			held = held.Plus(piece)
			if !size.Fits(piece) {
				t.Errorf("a piece of %v, where the unit is %v", piece, size)
			}
		}
		if !held.Equal(want.Beyond(nil)) {
			t.Errorf("%v is held, %v is wanted", held, want)
		}
		if n := len(a.have) - len(excess) + len(missing); n > 2*len(pieces(want, size))+mostPieces {
			t.Errorf("%d pods, where %d would do", n, len(pieces(want, size)))
		}
		a.left = map[string]time.Time{nameOf(a): time.Now()}
		if name := nameOf(a); !a.left[name].IsZero() || slices.ContainsFunc(a.have, func(pod *corev1.Pod) bool { return pod.Name == name }) {
			t.Errorf("%s is there already, or was a moment ago", name)
		}
	})
}

// A pod gets the node on which the fewest placeholders must go, none of another account goes, and a node that was given in vain is the last.
func TestChooseAPlace(t *testing.T) {
	cpus := func(n int64) market.Amounts { return market.Amounts{{Resource: "cpu", Value: 1000 * n}} }
	allocatable := api.Resources(cpus(4).Plus(market.Amounts{{Resource: "pods", Value: 4}}).Resources())
	rooms := []inventory.Room{
		{Node: "full", Allocatable: allocatable, Used: api.Resources(cpus(4).Resources())},
		{Node: "one", Allocatable: allocatable},
		{Node: "other", Allocatable: allocatable, Labels: map[string]string{"zone": "b"}},
	}
	a := &held{slice: "b-general", pool: api.PoolPolicy{Placeholders: &api.Placeholders{}}}
	for _, node := range []string{"one", "one", "one", "other", "other"} {
		pod := newPlaceholder(a, cpus(1))
		pod.Spec.NodeName = node
		a.have = append(a.have, pod)
	}
	for name, c := range map[string]struct {
		needs  int64
		taking map[string]market.Amounts
		zone   string
		vain   string
		node   string
		gives  int
	}{
		"where none must go":             {needs: 2, node: "other"},
		"where one must go":              {needs: 3, node: "other", gives: 1},
		"where it may":                   {needs: 2, zone: "a"},
		"not where it was in vain":       {needs: 2, vain: "other", node: "one", gives: 1},
		"again where it was in vain":     {needs: 4, zone: "b", vain: "other", node: "other", gives: 2},
		"nothing is taken from others":   {needs: 4, taking: map[string]market.Amounts{"one": cpus(4), "other": cpus(3)}},
		"what is nominated counts there": {needs: 2, taking: map[string]market.Amounts{"one": cpus(3), "other": cpus(4)}, node: "one", gives: 1},
	} {
		if c.taking == nil {
			c.taking = map[string]market.Amounts{"one": cpus(3), "other": cpus(2)}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		if c.zone != "" {
			pod.Spec.NodeSelector = map[string]string{"zone": c.zone}
		}
		if node, give := choose(pod, cpus(c.needs), a.have, rooms, c.taking, c.vain); node != c.node || len(give) != c.gives {
			t.Errorf("%s: %q, and %d go, want %q and %d", name, node, len(give), c.node, c.gives)
		}
	}
}
