package inventory

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A pool says what its nodes have free as few shapes: so many nodes have at least so much. What a
// node has is rounded down to few digits, so that nodes that are nearly alike are one shape, and a
// small change is none; with more digits, as long as the shapes stay few.

const (
	maxShapes = 16
	// finest is how many binary digits after the first one an amount keeps: a sixteenth of it is
	// lost at most.
	finest = 4
)

// shape is so many nodes with so much free, sorted by resource.
type shape struct {
	nodes int64
	free  market.Amounts
}

// shapes are by what is free, in bytes.
type shapes struct {
	known map[string]*shape
	free  market.Amounts // of the node that is added
	key   []byte
}

// add counts a node, if there is room for any pod on it.
func (s *shapes) add(n node, usage byOwner, policy api.PoolPolicy) {
	free := s.free[:0]
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
			free = append(free, market.Amount{Resource: name, Value: 1}) // it is one pod that is asked for
		case left > 0 && shares(policy, name):
			free = append(free, market.Amount{Resource: name, Value: left})
		}
	}
	if s.free = free; len(free) > 0 {
		s.group(1, free, finest)
	}
}

// group puts nodes with others that are alike once so many digits are left.
func (s *shapes) group(nodes int64, free market.Amounts, digits int) {
	s.key = s.key[:0]
	for i, a := range free {
		free[i].Value = floor(a.Value, digits)
		s.key = append(append(s.key, a.Resource...), 0)
		s.key = binary.BigEndian.AppendUint64(s.key, uint64(free[i].Value))
	}
	if known := s.known[string(s.key)]; known != nil {
		known.nodes += nodes
		return
	}
	if s.known == nil {
		s.known = map[string]*shape{}
	}
	s.known[string(s.key)] = &shape{nodes, slices.Clone(free)}
}

// floor keeps the first binary digit and so many after it.
func floor(n int64, digits int) int64 {
	drop := max(0, bits.Len64(uint64(n))-1-digits)
	return n >> drop << drop
}

// few are at most maxShapes, largest first.
func (s *shapes) few() []api.Shape {
	for digits := finest - 1; len(s.known) > maxShapes && digits >= 0; digits-- {
		coarser := &shapes{}
		for _, one := range s.known {
			coarser.group(one.nodes, one.free, digits)
		}
		s = coarser
	}
	all := make([]*shape, 0, len(s.known))
	for _, one := range s.known {
		all = append(all, one)
	}
	slices.SortFunc(all, larger)
	if len(all) > maxShapes {
		all = keepMost(all)
	}
	out := make([]api.Shape, len(all))
	for i, one := range all {
		out[i] = api.Shape{Nodes: one.nodes, Free: one.free.Resources()}
	}
	return out
}

// larger orders shapes by what they have of their resources, in the order of these, most first.
func larger(a, b *shape) int {
	return slices.CompareFunc(b.free, a.free, func(x, y market.Amount) int {
		return cmp.Or(strings.Compare(y.Resource, x.Resource), cmp.Compare(x.Value, y.Value))
	})
}

// keepMost leaves out the smallest, but none that has the most of something: whoever asks for that
// has no other node.
func keepMost(all []*shape) []*shape {
	most := map[string]*shape{}
	for _, one := range all {
		for _, a := range one.free {
			if best := most[a.Resource]; best == nil || best.free.Of(a.Resource) < a.Value {
				most[a.Resource] = one
			}
		}
	}
	first, rest := []*shape{}, []*shape{}
	for _, one := range all {
		if slices.ContainsFunc(one.free, func(a market.Amount) bool { return most[a.Resource] == one }) {
			first = append(first, one)
		} else {
			rest = append(rest, one)
		}
	}
	kept := append(first, rest...)[:maxShapes]
	slices.SortFunc(kept, larger)
	return kept
}
