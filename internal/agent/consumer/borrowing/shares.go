package borrowing

import (
	"maps"
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/internal/amounts"
)

// claim is an amount of a virtual node that some namespaces may use together.
type claim struct {
	namespaces []string // nil: any
	size       amounts.List
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
func findOveruse(claims []claim, used map[string]amounts.List) (found []overuse) {
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
// those that name its namespace, else for the first that admits any, if that leaves no other use without a claim.
func coveredUse(claims []claim, used map[string]amounts.List) []amounts.List {
	out := make([]amounts.List, len(claims))
	for _, name := range resourcesOf(claims) {
		f := newFlow(claims, used, name)
		f.coverUpTo(math.MaxInt64)
		for c, covers := range f.covers {
			sum := amounts.Amount{Resource: name}
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
	use        []int64   // by namespace
	admits     [][]int   // by namespace, the claims
	own        []int64   // by namespace, the claims that admit only it
	left       []int64   // by namespace, the use that no claim covers
	next       []int     // by namespace, the first claim of admits that may have something free
	free       []int64   // by claim
	covers     [][]int64 // by claim, the use of each namespace
}

// newFlow returns the namespaces and claims, with nothing covered.
func newFlow(claims []claim, used map[string]amounts.List, resource string) *flow {
	f := &flow{namespaces: slices.Sorted(maps.Keys(used))}
	count := len(f.namespaces)
	f.left, f.own, f.next = make([]int64, count), make([]int64, count), make([]int, count)
	for _, c := range claims {
		f.free, f.covers = append(f.free, c.size.Of(resource)), append(f.covers, make([]int64, count))
	}
	for i, namespace := range f.namespaces {
		f.use = append(f.use, used[namespace].Of(resource))
		var naming, any []int
		for n, c := range claims {
			switch {
			case c.namespaces == nil:
				any = append(any, n)
			case c.admits(namespace):
				if naming = append(naming, n); len(c.namespaces) == 1 {
					f.own[i] += f.free[n]
				}
			}
		}
		f.admits = append(f.admits, append(naming, any...))
	}
	return f
}

// shareFairly covers as much of the use of a resource as possible, first so much that each namespace has what only it
// may use, and up to a level of what it shares. The level is the highest that all can have.
func shareFairly(claims []claim, used map[string]amounts.List, resource string) *flow {
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
		for f.left[i] = most - f.takeFree(i, most); f.left[i] > 0 && f.makeRoom(i); {
			continue
		}
		short = short || f.left[i] > 0
	}
	return !short
}

// takeFree covers up to an amount of a namespace's use by what is free, and returns how much.
func (f *flow) takeFree(namespace int, most int64) (taken int64) {
	admits := f.admits[namespace]
	for ; taken < most && f.next[namespace] < len(admits); f.next[namespace]++ {
		c := admits[f.next[namespace]]
		n := min(f.free[c], most-taken)
		f.free[c] -= n
		f.covers[c][namespace] += n
		if taken += n; f.free[c] > 0 {
			break
		}
	}
	return taken
}

// makeRoom covers more of what is left of a namespace by claims that are full: it moves the use of others to other
// claims. It reports whether it did. It looks for the shortest way from the namespace to one that has something free,
// by namespaces that could each take over some use of the next one, and moves as much as that way allows. So the work
// grows with the claims, and not with its square.
func (f *flow) makeRoom(namespace int) bool {
	before, most := make([]int, len(f.use)), make([]int64, len(f.use)) // of the way to each namespace; most 0: none
	most[namespace] = f.left[namespace]
	for queue := []int{namespace}; len(queue) > 0; queue = queue[1:] {
		current := queue[0]
		if n := f.takeFree(current, most[current]); n > 0 {
			f.left[namespace] -= n
			for ; current != namespace; current = before[current] {
				f.takeOver(before[current], current, n)
			}
			return true
		}
		for other, n := range f.takeable(current) {
			if n > 0 && most[other] == 0 {
				before[other], most[other] = current, min(most[current], n)
				queue = append(queue, other)
			}
		}
	}
	return false
}

// takeable returns how much of the use of each namespace is covered by claims that admit a namespace, too.
func (f *flow) takeable(namespace int) []int64 {
	sums := make([]int64, len(f.use))
	for _, c := range f.admits[namespace] {
		for other, n := range f.covers[c] {
			sums[other] += n
		}
	}
	return sums
}

// takeOver gives a namespace an amount of the claims that cover the use of another one.
func (f *flow) takeOver(namespace, other int, amount int64) {
	for _, c := range f.admits[namespace] {
		n := min(f.covers[c][other], amount)
		f.covers[c][other] -= n
		f.covers[c][namespace] += n
		if amount -= n; amount == 0 {
			return
		}
	}
}
