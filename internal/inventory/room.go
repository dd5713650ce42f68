package inventory

import (
	"maps"

	"github.com/bourse-dev/bourse/api"
)

// Room is what a node has for pods.
type Room struct {
	Node   string
	Labels map[string]string
	// Allocatable is what it has at all, Used what pods of this cluster request: not those that Options.Owner says are others'.
	Allocatable, Used api.Resources
}

// Rooms are the nodes of one of these pools, in no order.
func (i *Inventory) Rooms(pools []api.PoolPolicy, pool string) []Room {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []Room
	for name, n := range i.nodes.items {
		for _, policy := range pools {
			if !n.counts(policy) {
				continue
			}
			if policy.Name == pool {
				allocatable, used := totals{}, totals{}
				allocatable.add(n.allocatable)
				used.addAll(i.usage[name][""])
				out = append(out, Room{name, maps.Clone(n.labels), allocatable.resources(), used.resources()})
			}
			break // a node that two pools select is of the first
		}
	}
	return out
}
