package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Card is what a member shows of itself to those who may see it. It is signed
// by the cluster's key (document kind "card"), so that a broker cannot alter it.
type Card struct {
	// Cluster is the Liqo cluster ID: a DNS-1123 label, at most 63 characters.
	Cluster string `json:"cluster"`
	// Key is the cluster key: raw Ed25519 public key, base64url without padding.
	Key string `json:"key"`
	// Legacy says that the cluster's agent is of the prototypes and has no key: the broker derived Key, holds it and signs with it in the
	// cluster's name. Only those trade with it whose SharingPolicy says `trust: legacy`.
	Legacy bool `json:"legacy,omitempty"`
	// Number grows with each card of this cluster; an older one is refused.
	Number int64 `json:"number"`
	// Properties are what requests select on.
	Properties Properties `json:"properties"`
	// Endorsement is a root's word that this cluster has this key (JWS), if it has one.
	Endorsement string `json:"endorsement,omitempty"`
	// Rotations (JWS) lead from the keys that the cluster had to Key, oldest first: each signed the next. At most [MaxRotations].
	Rotations []string `json:"rotations,omitempty"`
	// ApproveWithin is the SharingPolicy's: so long a consumer's assignment may wait for a person here. Absent: a few minutes.
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
}

// Properties describe a cluster. Each is a variable of `where` under its JSON name; one
// that is empty is unknown there.
type Properties struct {
	// Region is where the nodes are: the most frequent topology.kubernetes.io/region.
	// +kubebuilder:validation:MaxLength=128
	Region string `json:"region,omitempty"`
	// Zones are the zones of the nodes, sorted.
	Zones []string `json:"zones,omitempty"`
	// Architectures are the CPU architectures of the nodes ("amd64"), sorted.
	Architectures []string `json:"architectures,omitempty"`
	// GPUs are the GPU product names of the nodes ("NVIDIA-A100-SXM4-80GB"), sorted.
	GPUs []string `json:"gpus,omitempty"`
	// Kubernetes and Liqo are versions ("v1.35.4"); Liqo is empty where it is not installed.
	Kubernetes string `json:"kubernetes,omitempty"`
	Liqo       string `json:"liqo,omitempty"`
	// APIServer is the URL at which peers reach the cluster's API server, as Liqo would tell them.
	// +kubebuilder:validation:MaxLength=512
	APIServer string `json:"apiServer,omitempty"`
	// Network is the most that the cluster has with consumers: wireguard, or empty: none. Gateway says that others reach
	// its end of it, so that it can be the one that is dialled.
	// +kubebuilder:validation:MaxLength=16
	Network NetworkMode `json:"network,omitempty"`
	Gateway bool        `json:"gateway,omitempty"`
	// Connector is the URL at which those who know this cluster by its key deal with it without a broker. Empty: they do not.
	// +kubebuilder:validation:MaxLength=512
	Connector string `json:"connector,omitempty"`
	// APIServerAccess is how consumers reach the API server: network, through Network only, or empty: directly.
	// +kubebuilder:validation:MaxLength=16
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
	// StorageClasses are the names of the storage classes, sorted.
	StorageClasses []string `json:"storageClasses,omitempty"`
	// Labels are free, set by the admin in the SharingPolicy; `properties` of a request matches them.
	Labels map[string]string `json:"labels,omitempty"`
}

// Sequence orders the advertisements of a cluster: Incarnation grows with each
// start of its agent, Number with each advertisement.
type Sequence struct {
	Incarnation int64 `json:"incarnation"`
	Number      int64 `json:"number"`
}

// After says whether s is newer than o.
func (s Sequence) After(o Sequence) bool {
	return s.Incarnation > o.Incarnation || s.Incarnation == o.Incarnation && s.Number > o.Number
}

// Measurement is what an agent tells its broker of its cluster: the whole
// advertisement. It is not signed; the broker may not change it.
type Measurement struct {
	Sequence Sequence `json:"sequence"`
	// Terms say who may see and reserve. Nil: nothing is shared, the cluster is only a consumer.
	Terms *Terms `json:"terms,omitempty"`
	// Pools are the kinds of capacity, at most 16.
	Pools map[string]Pool `json:"pools,omitempty"`
}

// Pool is what an advertisement says of one kind of capacity.
type Pool struct {
	// Capacity and Allocatable are summed over the nodes that count: Ready, uncordoned, not virtual.
	Capacity    Resources `json:"capacity,omitempty"`
	Allocatable Resources `json:"allocatable,omitempty"`
	// Allocated is what pods that are not ours request.
	Allocated Resources `json:"allocated,omitempty"`
	// Shared is what the SharingPolicy makes of Allocatable: the most that all reservations may take.
	Shared Resources `json:"shared,omitempty"`
	// Accounts are what this cluster holds and sees used, by consumer.
	Accounts map[string]AccountUse `json:"accounts,omitempty"`
	// Shapes are what the nodes that count have free, at most 16. A node is in one of them at most, and each errs low.
	Shapes []Shape `json:"shapes,omitempty"`
}

// Shape says of so many nodes that each has at least so much free: allocatable less what its pods request.
type Shape struct {
	Nodes int64     `json:"nodes"`
	Free  Resources `json:"free"`
}

// AccountUse is what a provider says of one consumer's account in a pool.
type AccountUse struct {
	// Commitments are the sizes of the reservations that the provider has accepted, by ID.
	Commitments map[string]Resources `json:"commitments,omitempty"`
	// Sold are the units of plans that those of them are which were bought, by ID.
	Sold map[string]SoldUnits `json:"sold,omitempty"`
	// Used is what the consumer's pods request.
	Used Resources `json:"used,omitempty"`
}

// SoldUnits are units of a plan that are sold.
type SoldUnits struct {
	// Offer and Plan are names.
	Offer string `json:"offer"`
	Plan  string `json:"plan"`
	Units int64  `json:"units"`
}

// MeasurementDelta changes the advertisement that the broker has: what is named
// replaces what was there, a null removes it. An empty one renews the lease.
type MeasurementDelta struct {
	// Base is the advertisement that this changes; another one at the broker is StaleAdvertisement.
	Base     Sequence `json:"base"`
	Sequence Sequence `json:"sequence"`
	// Pools are whole pools, or null for one that is gone.
	Pools map[string]*PoolDelta `json:"pools,omitempty"`
}

// PoolDelta replaces the parts of a pool that it names.
type PoolDelta struct {
	Capacity    Resources              `json:"capacity,omitempty"`
	Allocatable Resources              `json:"allocatable,omitempty"`
	Allocated   Resources              `json:"allocated,omitempty"`
	Shared      Resources              `json:"shared,omitempty"`
	Accounts    map[string]*AccountUse `json:"accounts,omitempty"`
	Shapes      []Shape                `json:"shapes,omitempty"`
}

// Amounts are a pool in Kubernetes' words: capacity, allocatable, allocated,
// reserved, available. Available = min(shared, allocatable - allocated) - reserved.
type Amounts struct {
	Capacity    Resources `json:"capacity,omitempty"`
	Allocatable Resources `json:"allocatable,omitempty"`
	Allocated   Resources `json:"allocated,omitempty"`
	Shared      Resources `json:"shared,omitempty"`
	Reserved    Resources `json:"reserved,omitempty"`
	// Available may be negative: the provider is Overcommitted.
	Available Resources `json:"available,omitempty"`
	// Shapes are what the nodes have free. Only a cluster's own Advertisement has them: the broker shows them to no other member.
	Shapes []Shape `json:"shapes,omitempty"`
}

// Cluster is a member as another member sees it.
type Cluster struct {
	Properties Properties `json:"properties"`
	// Card is the signed card (JWS) that the properties come from.
	Card string `json:"card,omitempty"`
	// Fresh says that the agent's lease is alive; FreshUntil when it ends.
	Fresh      bool        `json:"fresh"`
	FreshUntil metav1.Time `json:"freshUntil,omitzero"`
	Sequence   Sequence    `json:"sequence,omitzero"`
	// Uptime is the share of the last 30 days in which the lease was alive, in parts per million, rounded down. What the broker did not
	// see is not in it. Absent: the broker has seen the cluster for less than 24h, and it satisfies no bound.
	Uptime *int64 `json:"uptime,omitempty"`
	// Honoured is the share of its promises of the last 30 days that the cluster kept as a provider, in parts per million, rounded
	// down. Absent: they were fewer than five, and it satisfies no bound.
	Honoured *int64 `json:"honoured,omitempty"`
	// Pools are what is offered, by pool.
	Pools map[string]Amounts `json:"pools,omitempty"`
	// Overcommitted says that reservations exceed what the cluster has now.
	Overcommitted bool `json:"overcommitted,omitempty"`
}
