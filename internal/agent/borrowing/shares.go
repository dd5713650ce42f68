package borrowing

import (
	"maps"
	"slices"

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

// overuse names namespaces that use more of a resource than all claims that admit one of them.
type overuse struct {
	namespaces []string
	resource   string
	claimed    int64 // by these claims
}

// findOveruse returns who uses more of a virtual node than its claims. Each use counts for a claim that admits the
// namespace, so that as much as possible is covered. A resource that no claim names has no bound, nor has the number
// of pods: the provider grants it to the node as a whole.
func findOveruse(claims []claim, used map[string]market.Amounts) (found []overuse) {
	for _, name := range resourcesOf(claims) {
		if name != string(corev1.ResourcePods) {
			found = append(found, newFlow(claims, used, name).overuses(claims)...)
		}
	}
	return found
}

// coveredUse returns how much of the use each claim covers. A use that several claims admit counts for the first of
// them, if that leaves no other use without a claim.
func coveredUse(claims []claim, used map[string]market.Amounts) []market.Amounts {
	out := make([]market.Amounts, len(claims))
	for _, name := range resourcesOf(claims) {
		for c, covers := range newFlow(claims, used, name).covers {
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
	resource   string
	namespaces []string
	admits     [][]int         // by namespace, the claims
	left       []int64         // by namespace, the use that no claim covers
	free       []int64         // by claim
	covers     []map[int]int64 // by claim, the use of each namespace
}

// newFlow covers as much of the use of a resource as possible.
func newFlow(claims []claim, used map[string]market.Amounts, resource string) *flow {
	f := &flow{resource: resource, namespaces: slices.Sorted(maps.Keys(used))}
	for _, c := range claims {
		f.free, f.covers = append(f.free, c.size.Of(resource)), append(f.covers, map[int]int64{})
	}
	for _, namespace := range f.namespaces {
		f.left = append(f.left, used[namespace].Of(resource))
		var admits []int
		for i, c := range claims {
			if c.admits(namespace) {
				admits = append(admits, i)
			}
		}
		f.admits = append(f.admits, admits)
	}
	for i := range f.namespaces {
		for f.left[i] > 0 && f.push(i, make([]bool, len(claims))) > 0 {
			continue
		}
	}
	return f
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

// overuses returns the namespaces whose use is not covered, with those that share their claims: one for each set of
// claims.
func (f *flow) overuses(claims []claim) (found []overuse) {
	short := f.reach(func(i int) bool { return f.left[i] > 0 }, func(c, i int) bool { return f.covers[c][i] > 0 })
	done := make([]bool, len(f.namespaces))
	for i := range f.namespaces {
		if !short[i] || done[i] {
			continue
		}
		together := f.reach(func(j int) bool { return j == i },
			func(c, j int) bool { return short[j] && slices.Contains(f.admits[j], c) })
		o := overuse{resource: f.resource}
		for j, name := range f.namespaces {
			if together[j] {
				o.namespaces = append(o.namespaces, name)
				done[j] = true
			}
		}
		for _, c := range claims {
			if slices.ContainsFunc(o.namespaces, c.admits) {
				o.claimed += c.size.Of(f.resource)
			}
		}
		found = append(found, o)
	}
	return found
}

// reach returns the namespaces from which a search begins, and those that it reaches through the claims that admit
// one of them.
func (f *flow) reach(begins func(namespace int) bool, through func(claim, namespace int) bool) []bool {
	reached, seen, next := make([]bool, len(f.namespaces)), make([]bool, len(f.free)), []int{}
	add := func(i int) {
		if !reached[i] {
			reached[i] = true
			next = append(next, i)
		}
	}
	for i := range f.namespaces {
		if begins(i) {
			add(i)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		for _, c := range f.admits[next[0]] {
			if seen[c] {
				continue
			}
			seen[c] = true
			for i := range f.namespaces {
				if through(c, i) {
					add(i)
				}
			}
		}
	}
	return reached
}
