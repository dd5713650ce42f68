package match

import (
	"fmt"
	"strings"

	"github.com/bourse-dev/bourse/internal/market"
)

func noShapeAsked(q *question) bool { return len(q.Pod) == 0 }

func hosts(q *question, c *candidate) reason {
	shapes := q.shapes(c)
	switch {
	case len(shapes) == 0:
		return noShapes
	case !market.Hosts(shapes, c.pool.Unfilled, q.Pod):
		return noNode
	}
	return passes
}

// shapes returns those of the requested pool.
func (q *question) shapes(c *candidate) []market.Shape { return c.Measured.Pools[c.pool.Name].Shapes }

// shapeShortfall returns how much of the scarcest resource the largest node lacks, in parts per million of the
// request.
func shapeShortfall(q *question, c *candidate) int64 {
	return missing(q.Pod, func(i int) int64 { return market.Largest(q.shapes(c), q.Pod[i].Resource) })
}

// explainShape names each resource that no node has enough of: "largest free node has 3.2 of 4 cpu".
func explainShape(q *question, c *candidate, r reason) string {
	if r == noShapes {
		return "does not advertise the free amounts of its nodes, or they have nothing free"
	}
	var short, all []string
	for _, need := range q.Pod {
		asked := quantity(need.Resource, need.Value)
		if has := market.Largest(q.shapes(c), need.Resource); has < need.Value {
			short = append(short, fmt.Sprintf("%s of %s %s", quantity(need.Resource, has), asked, need.Resource))
		}
		all = append(all, asked+" "+need.Resource)
	}
	switch {
	case len(short) > 0:
		return "largest free node has " + strings.Join(short, ", ")
	case !market.Hosts(q.shapes(c), nil, q.Pod):
		return "no node has " + strings.Join(all, " and ") + " free together"
	default:
		return "capacity that is reserved and not used yet may leave no node with " + strings.Join(all, " and ")
	}
}
