package borrowing

import (
	"maps"
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/internal/market"
)

// claim is an amount of a virtual node that some namespaces may use together.
type claim struct {
	namespaces []string // nil: any
	size       market.Amounts
}

func (c claim) admits(namespace string) bool {
	return c.namespaces == nil || slices.Contains(c.namespaces, namespace)
}

// overuse says that a namespace uses more of a resource than what claims cover of it.
type overuse struct {
	namespace, resource string
	covered             int64
}

// findOveruse returns who uses more of a virtual node than its claims. As much as possible of all use is covered. Of
// claims that several admit, each has as much as any other that needs as much, beside what only it may use: who uses
// more cannot take from who uses less. A resource that no claim names has no bound, nor has the number of pods: the
// provider grants it to the node as a whole.
func findOveruse(claims []claim, used map[string]market.Amounts) (found []overuse) {
	for _, resource := range resourcesOf(claims) {
		if resource == string(corev1.ResourcePods) {
			continue
		}
		f := shareFairly(claims, used, resource)
		for i, name := range f.namespaces {
			if f.left[i] > 0 {
				found = append(found, overuse{name, resource, f.use[i] - f.left[i]})
			}
		}
	}
	return found
}

// coveredUse returns how much of the use each claim covers. A use that several claims admit counts for the first of
// them, if that leaves no other use without a claim.
func coveredUse(claims []claim, used map[string]market.Amounts) []market.Amounts {
	out := make([]market.Amounts, len(claims))
	for _, name := range resourcesOf(claims) {
		f := newFlow(claims, used, name)
		f.coverUpTo(math.MaxInt64)
		for c, covers := range f.covers {
			sum := market.Amount{Resource: name}
			for _, n := range covers {
				sum.Value += n
			}
			out[c] = append(out[c], sum)
		}
	}
	return out
}

// resourcesOf returns the resources that claims name, sorted.
func resourcesOf(claims []claim) []string {
	named := map[string]bool{}
	for _, c := range claims {
		for _, a := range c.size {
			named[a.Resource] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// flow assigns the use of one resource to claims. It is a flow in a graph of namespaces and claims: see
// https://en.wikipedia.org/wiki/Ford-Fulkerson_algorithm.
type flow struct {
	namespaces []string
	use        []int64         // by namespace
	admits     [][]int         // by namespace, the claims
	own        []int64         // by namespace, the claims that admit only it
	left       []int64         // by namespace, the use that no claim covers
	free       []int64         // by claim
	covers     []map[int]int64 // by claim, the use of each namespace
}

// newFlow returns the namespaces and claims, with nothing covered.
func newFlow(claims []claim, used map[string]market.Amounts, resource string) *flow {
	f := &flow{namespaces: slices.Sorted(maps.Keys(used))}
	f.left, f.own = make([]int64, len(f.namespaces)), make([]int64, len(f.namespaces))
	for _, c := range claims {
		f.free, f.covers = append(f.free, c.size.Of(resource)), append(f.covers, map[int]int64{})
	}
	for i, namespace := range f.namespaces {
		f.use = append(f.use, used[namespace].Of(resource))
		var admits []int
		for n, c := range claims {
			if !c.admits(namespace) {
				continue
			}
			if admits = append(admits, n); len(c.namespaces) == 1 {
				f.own[i] += f.free[n]
			}
		}
		f.admits = append(f.admits, admits)
	}
	return f
}

// shareFairly covers as much of the use of a resource as possible, first so much that each namespace has what only it
// may use, and up to a level of what it shares. The level is the highest that all can have.
func shareFairly(claims []claim, used map[string]market.Amounts, resource string) *flow {
	all, highest := newFlow(claims, used, resource), int64(0)
	if all.coverUpTo(math.MaxInt64) {
		return all
	}
	for _, use := range all.use {
		highest = max(highest, use)
	}
	level := sort.Search(int(highest), func(n int) bool {
		return !newFlow(claims, used, resource).coverUpTo(int64(n) + 1)
	})
	f := newFlow(claims, used, resource)
	f.coverUpTo(int64(level))
	f.coverUpTo(math.MaxInt64)
	return f
}

// coverUpTo covers use up to a level beyond what only the namespace may use, and reports whether all of that is
// covered. What is covered stays so.
func (f *flow) coverUpTo(level int64) bool {
	short := false
	for i, most := range f.use {
		if level < most-f.own[i] {
			most = f.own[i] + level
		}
		for _, covers := range f.covers {
			most -= covers[i]
		}
		for f.left[i] = most; f.left[i] > 0 && f.push(i, make([]bool, len(f.free))) > 0; {
			continue
		}
		short = short || f.left[i] > 0
	}
	return !short
}

// push covers more of what is left of a namespace, and returns how much. It moves the use of others to other claims
// where that makes room. seen are the claims that were tried.
func (f *flow) push(namespace int, seen []bool) int64 {
	for _, c := range f.admits[namespace] {
		if seen[c] {
			continue
		}
		seen[c] = true
		if f.free[c] == 0 {
			f.makeRoom(c, f.left[namespace], seen)
		}
		if n := min(f.free[c], f.left[namespace]); n > 0 {
			f.free[c] -= n
			f.left[namespace] -= n
			f.covers[c][namespace] += n
			return n
		}
	}
	return 0
}

// makeRoom moves up to an amount of the use that a full claim covers to another claim.
func (f *flow) makeRoom(c int, most int64, seen []bool) {
	for _, other := range slices.Sorted(maps.Keys(f.covers[c])) {
		n, before := min(most, f.covers[c][other]), f.left[other]
		if n == 0 {
			continue
		}
		f.left[other] = n
		moved := f.push(other, seen)
		f.left[other] = before
		if moved > 0 {
			f.covers[c][other] -= moved
			f.free[c] += moved
			return
		}
	}
}
