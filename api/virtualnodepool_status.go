package api

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualNodePoolStatus is the state of a VirtualNodePool.
type VirtualNodePoolStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Demand is what the pods that count request, and min. Reserved is what is reserved, Used what
	// pods on the virtual nodes request of it.
	Demand   Resources `json:"demand,omitempty"`
	Reserved Resources `json:"reserved,omitempty"`
	Used     Resources `json:"used,omitempty"`
	// CPU and Memory are used, reserved and max, as "12/20/200".
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	// InUse is the number of providers that serve the pool.
	InUse int32 `json:"inUse,omitempty"`
	// Cost is that of all reservations, in an hour ("1.20 EUR/h"). Empty: they are free.
	Cost string `json:"cost,omitempty"`
	// Why says why the demand is not met, what is wrong at which provider, and which pods wait that the pool cannot
	// serve. Empty: none of these.
	Why string `json:"why,omitempty"`
	// Pending are the pods of the namespaces that wait for a node.
	// +optional
	Pending PendingPods `json:"pending,omitzero"`
	// Providers are those that serve the pool, or leave it, by name.
	// +listType=map
	// +listMapKey=name
	Providers []PoolProvider `json:"providers,omitempty"`
}

// PendingPods are pods that wait for a node.
type PendingPods struct {
	// Counted is the number of pods for which the pool grows.
	Counted int32 `json:"counted,omitempty"`
	// Not are those that do not count, at most 8 reasons.
	// +listType=map
	// +listMapKey=reason
	Not []UncountedPods `json:"not,omitempty"`
}

// UncountedPods are Pending pods for which a VirtualNodePool does not grow.
type UncountedPods struct {
	// Reason is NotYet, Refused, NotAllowed, Affinity, Spread, TooLarge, DidNotHelp, NotPlaced or Nominated.
	Reason string `json:"reason"`
	Count  int32  `json:"count"`
	// Example is NAMESPACE/NAME of one of the pods, and Message says why it does not count.
	Example string `json:"example,omitempty"`
	Message string `json:"message,omitempty"`
}

// PoolProvider is a provider of a VirtualNodePool.
type PoolProvider struct {
	Name string `json:"name"`
	// Node is the virtual node, Request the ResourceRequest in the agent's namespace.
	Node    string `json:"node,omitempty"`
	Request string `json:"request,omitempty"`
	// Reserved is the size of the reservation, Used what pods request of it.
	Reserved Resources `json:"reserved,omitempty"`
	Used     Resources `json:"used,omitempty"`
	// Cost is that of an hour. Empty: it is free.
	Cost string `json:"cost,omitempty"`
	// Price is that of one unit of its plan ("0.10 EUR/hour"). Empty: nothing is bought.
	Price string `json:"price,omitempty"`
	// Uptime is the share of the last 30 days in which the broker saw the provider's agent, in parts per
	// million, of at most an hour ago. Absent: the broker does not know.
	Uptime *int64 `json:"uptime,omitempty"`
	// +optional
	Until metav1.Time `json:"until,omitzero"`
	// State is Asked, Ready, NotReady, Leaving or Dead. In a plan, it is also Planned or Larger.
	State string `json:"state"`
	// Volumes are the bound claims whose volumes are at the provider. VolumesDigest gives them up, and no
	// others.
	Volumes       []string `json:"volumes,omitempty"`
	VolumesDigest string   `json:"volumesDigest,omitempty"`
}

// Unserved returns how many pods wait that the pool does not serve, and the reason with the most of them. A pod that
// counts soon, or for which the scheduler makes room, is not among them.
func (p PendingPods) Unserved() (count int32, most UncountedPods) {
	for _, not := range p.Not {
		if not.Reason == "NotYet" || not.Reason == "Nominated" {
			continue
		}
		if count += not.Count; not.Count > most.Count {
			most = not
		}
	}
	return count, most
}

// Volumes returns the volumes of all providers of a pool, nil if there are none. The digest is that of each
// provider, with a comma between them.
func (s *VirtualNodePoolStatus) Volumes() *Volumes {
	var out Volumes
	var digests []string
	for _, provider := range s.Providers {
		if provider.VolumesDigest != "" {
			out.Claims, digests = append(out.Claims, provider.Volumes...), append(digests, provider.VolumesDigest)
		}
	}
	if out.Count = len(out.Claims); out.Count == 0 {
		return nil
	}
	out.Claims, out.Digest = out.Claims[:min(out.Count, 20)], strings.Join(digests, ",")
	return &out
}
