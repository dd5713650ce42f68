package inventory

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Measured is the state of a cluster at one time. Resources without any amount are left out.
type Measured struct {
	// Pools are by name. They have no commitments, because the Ledger has those.
	Pools map[string]api.Pool
	// Properties lack Liqo and Labels, which other packages add.
	Properties api.Properties
}

// Measure returns the current state. It is the zero Measured until [Inventory.Synced].
//
// A node counts if it is Ready, uncordoned, selected by the pool and without a taint that the pool does
// not tolerate. Only a pool of virtual nodes has virtual nodes, and it has no others. A node that two
// pools select belongs to the first. made are the virtual nodes that reservations made, with the most of
// each that counts: nil if this cluster may not lend it on. Of other virtual nodes, those count that the
// pool names.
//
// A pod counts if it is on such a node. Other pods are left out, also of accounts, because the capacity
// of their node is left out too: otherwise they would be charged to other nodes.
//
// Properties are those of the nodes of all pools; without pools, as in a cluster that only consumes,
// those of all nodes without taints. Properties of a pool of virtual nodes are those that all its nodes
// have in common.
func (i *Inventory) Measure(pools []api.PoolPolicy, made map[string]amounts.List, gpuLabels ...string) Measured {
	counted, properties, ok := i.count(pools, made, gpuLabels)
	if !ok {
		return Measured{}
	}
	measured := Measured{Pools: make(map[string]api.Pool, len(pools)), Properties: properties}
	for n, policy := range pools {
		measured.Pools[policy.Name] = i.pool(policy, counted[n])
	}
	return measured
}

// Used returns the requests of an owner's pods on all nodes, including those that do not count.
func (i *Inventory) Used(owner string) api.Resources {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.owners[owner].resources()
}

// UsedByNamespace returns the requests of an owner's pods, or of the pods on a node, by namespace. It scans
// all pods.
func (i *Inventory) UsedByNamespace(owner, node string) map[string]api.Resources {
	i.mu.Lock()
	defer i.mu.Unlock()
	sums := byOwner{} // here the namespace is the owner
	for key, p := range i.pods.items {
		if node != "" && p.node.Value() == node || node == "" && p.owner.Value() == owner {
			namespace, _, _ := strings.Cut(key, "/")
			sums.of(namespace).add(p.requests)
		}
	}
	out := make(map[string]api.Resources, len(sums))
	for namespace, used := range sums {
		out[namespace] = used.resources()
	}
	return out
}

// UsedOn returns the requests of all pods on a node.
func (i *Inventory) UsedOn(node string) api.Resources {
	i.mu.Lock()
	defer i.mu.Unlock()
	sums := totals{}
	for _, used := range i.usage[node] {
		sums.addAll(used)
	}
	return sums.resources()
}

// PodsOn returns the pods on a node that have not ended, as NAMESPACE/NAME, in order. It scans all pods.
func (i *Inventory) PodsOn(node string) (names []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, p := range i.pods.items {
		if p.node.Value() == node {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// counted is the sums of one pool.
type counted struct {
	capacity, allocatable totals
	unverified            totals  // of allocatable, of nodes that no reservation made
	usage, sources        byOwner // sources are by the cluster behind a virtual node
	shapes                shapes
}

// count sums the counting nodes and pods, one result per pool. All else happens later, without the lock:
// calls of Options must not delay the inventory.
func (i *Inventory) count(
	pools []api.PoolPolicy, made map[string]amounts.List, gpuLabels []string,
) (all []counted, properties api.Properties, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unsynced > 0 {
		return nil, api.Properties{}, false
	}
	all = make([]counted, len(pools))
	for n := range all {
		all[n] = counted{totals{}, totals{}, totals{}, byOwner{}, byOwner{}, shapes{}}
	}
	var nodes []node
	for name, node := range i.nodes.items {
		counts := len(pools) == 0 && node.counts(api.PoolPolicy{})
		for n, policy := range pools {
			if !node.counts(policy) {
				continue
			}
			if counts = node.bound(name, made, policy.VirtualNodes); counts {
				all[n].add(node, i.usage[name], policy)
				break
			}
		}
		if counts {
			nodes = append(nodes, node)
		}
	}
	return all, i.properties(nodes, gpuLabels), true
}

func (c *counted) add(n node, usage byOwner, policy api.PoolPolicy) {
	if n.virtual { // the nodes behind it are not known
		c.sources.of(n.labels["liqo.io/remote-cluster-id"]).add(n.allocatable)
		if n.byHand {
			c.unverified.add(n.allocatable)
		}
	} else {
		c.shapes.add(n, usage, policy)
	}
	c.capacity.add(n.capacity)
	c.allocatable.add(n.allocatable)
	for owner, used := range usage {
		c.usage.of(owner).addAll(used)
	}
}

// pool converts counted sums into an advertisement's pool.
func (i *Inventory) pool(policy api.PoolPolicy, c counted) api.Pool {
	accounts := byOwner{} // here the consumer is the owner; "" is none
	for _, p := range policy.PlainConsumers {
		user := i.options.User(p.Slice, p.Cluster)
		accounts.of("").addAll(atLeast(c.usage[user], p.Max))
		delete(c.usage, user)
	}
	for owner, used := range c.usage {
		if owner != "" {
			owner = i.options.Consumer(owner)
		}
		accounts.of(owner).addAll(used)
	}
	if policy.Storage != nil { // from the policy: nodes do not report storage
		lent, _ := within(implausible, corev1.ResourceStorage, *policy.Storage)
		for _, all := range []totals{c.capacity, c.allocatable} {
			all[string(corev1.ResourceStorage)] = sum{low: uint64(lent)}
		}
	}
	// A resource that no node here has cannot be sold. Without this check, a pod with a thousand invented
	// resources would enlarge every advertisement.
	for _, used := range accounts {
		maps.DeleteFunc(used, func(name string, _ sum) bool {
			return c.capacity[name] == (sum{}) && c.allocatable[name] == (sum{})
		})
	}
	pool := api.Pool{
		Capacity:    c.capacity.resources(),
		Allocatable: c.allocatable.resources(),
		Allocated:   accounts[""].resources(),
		Shared:      shared(policy, c.allocatable),
		Accounts:    map[string]api.AccountUse{},
		Shapes:      c.shapes.keepLargest(),
	}
	for source, gives := range c.sources {
		if pool.Sources == nil {
			pool.Sources = map[string]api.Resources{}
		}
		pool.Sources[source] = gives.resources()
	}
	pool.Unverified = c.unverified.resources()
	delete(accounts, "")
	for consumer, used := range accounts {
		pool.Accounts[consumer] = api.AccountUse{Used: used.resources()}
	}
	return pool
}

// atLeast returns, of each resource, the larger of what pods use and an amount.
func atLeast(used totals, most api.Resources) totals {
	out := totals{}
	out.addAll(used)
	for name, amount := range most {
		n, _ := within(implausible, name, amount)
		if out[string(name)].int64() < n {
			out[string(name)] = sum{low: uint64(n)}
		}
	}
	return out
}

// shares reports whether a pool shares any of a resource.
func shares(policy api.PoolPolicy, resource string) bool {
	return len(policy.Resources) == 0 || slices.Contains(policy.Resources, resource)
}

// shared returns the smallest of the policy's percentage, its caps, and allocatable minus its headroom.
func shared(policy api.PoolPolicy, allocatable totals) api.Resources {
	percentage := int64(100)
	if policy.Percentage != nil {
		percentage = min(max(int64(*policy.Percentage), 0), 100)
	}
	resources := api.Resources{}
	for key, total := range allocatable {
		name := corev1.ResourceName(key)
		if !shares(policy, key) {
			continue
		}
		all := total.int64()
		// all*percentage/100, rounded down, in an order that does not overflow.
		n := all/100*percentage + all%100*percentage/100
		if limit, ok := policy.Caps[name]; ok {
			most, _ := within(math.MaxInt64, name, limit)
			n = min(n, most)
		}
		if headroom, ok := policy.Headroom[name]; ok {
			back, _ := within(math.MaxInt64, name, headroom)
			n = min(n, all-back)
		}
		if n > 0 {
			resources[name] = amounts.Amount{Resource: key, Value: n}.Quantity()
		}
	}
	return resources
}
