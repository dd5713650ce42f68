package inventory

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// A pool advertises the free resources of its nodes as a few shapes: a number of nodes with at least some
// amounts. The amounts of a node are rounded down to few digits, so that similar nodes have one shape and a
// small change has no effect. There are more digits while the shapes stay few.

const (
	maxShapes = 16
	// finest is the number of binary digits of an amount after the first: at most a sixteenth is lost.
	finest = 4
)

// shape is a number of nodes and their free amounts, sorted by resource.
type shape struct {
	nodes int64
	free  amounts.List
}

// shapes are by their free amounts, encoded as bytes.
type shapes map[string]*shape

// add counts a node if a pod fits on it.
func (s shapes) add(n node, usage byOwner, policy api.PoolPolicy) {
	var free amounts.List
	for _, has := range n.allocatable {
		name := has.Resource
		left := has.Value
		for _, used := range usage {
			left -= min(left, used[name].int64())
		}
		switch {
		case name == string(corev1.ResourcePods):
			if left == 0 {
				return
			}
			free = append(free, amounts.Amount{Resource: name, Value: 1}) // one pod is requested
		case left > 0 && shares(policy, name):
			free = append(free, amounts.Amount{Resource: name, Value: left})
		}
	}
	if len(free) > 0 {
		s.group(1, free, finest)
	}
}

// group merges shapes that are equal after rounding to digits. It rounds free itself.
func (s shapes) group(nodes int64, free amounts.List, digits int) {
	var key []byte
	for i, a := range free {
		free[i].Value = floor(a.Value, digits)
		key = append(append(key, a.Resource...), 0)
		key = binary.BigEndian.AppendUint64(key, uint64(free[i].Value))
	}
	if s[string(key)] == nil {
		s[string(key)] = &shape{free: free}
	}
	s[string(key)].nodes += nodes
}

// floor keeps the first binary digit and the given number after it.
func floor(n int64, digits int) int64 {
	drop := max(0, bits.Len64(uint64(n))-1-digits)
	return n >> drop << drop
}

// keepLargest returns at most maxShapes shapes, largest first.
func (s shapes) keepLargest() []api.Shape {
	for digits := finest - 1; len(s) > maxShapes && digits >= 0; digits-- {
		coarser := shapes{}
		for _, shape := range s {
			coarser.group(shape.nodes, shape.free, digits)
		}
		s = coarser
	}
	all := slices.SortedFunc(maps.Values(s), larger)
	if len(all) > maxShapes {
		all = keepMost(all)
	}
	out := make([]api.Shape, len(all))
	for i, shape := range all {
		out[i] = api.Shape{Nodes: shape.nodes, Free: shape.free.Resources()}
	}
	return out
}

// larger orders shapes by their amounts of the given resources, in that order, most first.
func larger(a, b *shape) int {
	return slices.CompareFunc(b.free, a.free, func(x, y amounts.Amount) int {
		return cmp.Or(strings.Compare(y.Resource, x.Resource), cmp.Compare(x.Value, y.Value))
	})
}

// keepMost drops the smallest shapes, but none with the most of a resource: only that node fits the largest
// requests.
func keepMost(all []*shape) []*shape {
	most := map[string]*shape{}
	for _, shape := range all {
		for _, a := range shape.free {
			if best := most[a.Resource]; best == nil || best.free.Of(a.Resource) < a.Value {
				most[a.Resource] = shape
			}
		}
	}
	first, rest := []*shape{}, []*shape{}
	for _, shape := range all {
		if slices.ContainsFunc(shape.free, func(a amounts.Amount) bool { return most[a.Resource] == shape }) {
			first = append(first, shape)
		} else {
			rest = append(rest, shape)
		}
	}
	kept := append(first, rest...)[:maxShapes]
	slices.SortFunc(kept, larger)
	return kept
}
