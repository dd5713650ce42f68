package market

import (
	"fmt"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Shape says that a number of nodes each have at least an amount free. A provider groups its nodes into few
// shapes.
type Shape struct {
	Nodes int64
	Free  amounts.List
}

const (
	// MaxShapes is how many shapes a pool may advertise.
	MaxShapes = 16
	maxNodes  = 1_000_000
)

func measureShapes(field string, shapes []api.Shape) ([]Shape, error) {
	if len(shapes) > MaxShapes {
		return nil, api.Invalid(field, "%d shapes", len(shapes)).Fix("advertise at most %d", MaxShapes)
	}
	out := make([]Shape, len(shapes))
	for i, s := range shapes {
		path := fmt.Sprintf("%s[%d]", field, i)
		if s.Nodes < 1 || s.Nodes > maxNodes {
			return nil, api.Invalid(path+".nodes", "%d nodes", s.Nodes).Fix("give 1 to %d", maxNodes)
		}
		free, err := amounts.ParseCapacity(path+".free", s.Free)
		if err != nil {
			return nil, err
		}
		out[i] = Shape{s.Nodes, free}
	}
	return out, nil
}

// ShapesOf converts shapes to their public form.
func ShapesOf(shapes []Shape) []api.Shape {
	var out []api.Shape
	for _, s := range shapes {
		out = append(out, api.Shape{Nodes: s.Nodes, Free: s.Free.Resources()})
	}
	return out
}

// Hosts reports whether a pod fits on some node, wherever the unfilled amounts (reserved, not used yet) are
// placed. In the worst case they leave each node just too little.
func Hosts(shapes []Shape, unfilled, pod amounts.List) bool {
	fitting := slices.DeleteFunc(slices.Clone(shapes), func(s Shape) bool { return !s.Free.Fits(pod) })
	return len(fitting) > 0 && !slices.ContainsFunc(pod, func(need amounts.Amount) bool {
		return leavesTooLittle(fitting, unfilled.Of(need.Resource), need)
	})
}

// leavesTooLittle reports whether unfilled amounts of a resource can leave each node less than needed.
func leavesTooLittle(fitting []Shape, unfilled int64, need amounts.Amount) bool {
	for _, s := range fitting {
		each := s.Free.Of(need.Resource) - need.Value + 1
		if s.Nodes > unfilled/each {
			return false
		}
		unfilled -= s.Nodes * each
	}
	return true
}

// Largest returns the most that one node has free of a resource.
func Largest(shapes []Shape, resource string) (most int64) {
	for _, s := range shapes {
		most = max(most, s.Free.Of(resource))
	}
	return most
}

// checkPodShape reports why no node of a provider can run a pod of the requested shape, or nil.
func (s *State) checkPodShape(provider, pool string, r *Reservation) error {
	if r.Request == nil || len(r.Request.PodShape) == 0 {
		return nil
	}
	pod, err := amounts.ParseRequest("podShape", r.Request.PodShape)
	if err != nil {
		return err
	}
	if b := s.providers[provider].pools[pool]; !Hosts(b.measured.Shapes, b.unfilled(), pod) {
		return api.Errorf(api.CodeInsufficient, "cluster %s has no node for a pod of %s %s", provider, pod[0].Text(),
			pod[0].Resource)
	}
	return nil
}
