package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Card is what a member shows of itself to those that may see it. The cluster key signs it
// (document kind "card"), so that a broker cannot change it.
type Card struct {
	// Cluster is the Liqo cluster ID: a DNS-1123 label, at most 63 characters.
	Cluster string `json:"cluster"`
	// Key is the cluster key: raw Ed25519 public key, base64url without padding.
	Key string `json:"key"`
	// Legacy says that the cluster's agent is a prototype without a key. The broker derived Key,
	// holds it and signs with it in the cluster's name. Only clusters whose SharingPolicy says
	// `trust: legacy` trade with it.
	Legacy bool `json:"legacy,omitempty"`
	// Number grows with each card of this cluster; an older one is refused.
	Number int64 `json:"number"`
	// Properties are what requests select on.
	Properties Properties `json:"properties"`
	// Endorsement is a root's signed statement that this cluster has this key (JWS), if there is one.
	Endorsement string `json:"endorsement,omitempty"`
	// Rotations (JWS) lead from the cluster's earlier keys to Key, oldest first. Each key signed
	// the next. At most [MaxRotations].
	Rotations []string `json:"rotations,omitempty"`
	// ApproveWithin is that of the SharingPolicy: how long a consumer's assignment may wait for an
	// admin here. Absent: a few minutes.
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
	// MaxNamespaces is namespaces.max of the SharingPolicy: how many namespaces of one consumer can
	// be mapped here. Absent: it is not known, or nothing is shared.
	MaxNamespaces int32 `json:"maxNamespaces,omitempty"`
}

// Properties describe a cluster. Each is a variable of `where` under its JSON name. An empty
// property is unknown there.
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
	// LiqoProtocol lists the kinds of Liqo that two clusters exchange, with the versions in which this one serves them,
	// sorted: "ResourceSlice authentication.liqo.io/v1beta1". Empty: those of Liqo
	// 1.2.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	LiqoProtocol []string `json:"liqoProtocol,omitempty"`
	// APIServer is the URL of the cluster's API server for peers, as its Liqo publishes it.
	// +kubebuilder:validation:MaxLength=512
	APIServer string `json:"apiServer,omitempty"`
	// Network is the network that the cluster allows with consumers: wireguard, or empty for none.
	// Gateway says that other clusters can dial its gateway.
	// +kubebuilder:validation:MaxLength=16
	Network NetworkMode `json:"network,omitempty"`
	Gateway bool        `json:"gateway,omitempty"`
	// Connector is the URL where clusters that know this one's key deal with it without a broker.
	// Empty: it has no connector.
	// +kubebuilder:validation:MaxLength=512
	Connector string `json:"connector,omitempty"`
	// APIServerAccess says how consumers reach the API server: network (only through Network), or
	// empty (directly).
	// +kubebuilder:validation:MaxLength=16
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
	// Aggregator says that the cluster is a hub: it lends on what it borrows. Its other properties
	// are those that all its virtual nodes have in common.
	Aggregator bool `json:"aggregator,omitempty"`
	// Unverified says that no provider signed for a part of what the hub lends: an admin peered with
	// its provider by hand. No offer sells this part.
	Unverified bool `json:"unverified,omitempty"`
	// StorageClasses are the names of the storage classes, sorted.
	StorageClasses []string `json:"storageClasses,omitempty"`
	// Labels are free. The admin sets them in the SharingPolicy; `properties` of a request matches them.
	Labels map[string]string `json:"labels,omitempty"`
}

// Sequence orders the advertisements of a cluster. Incarnation grows with each start of its agent,
// Number with each advertisement.
type Sequence struct {
	Incarnation int64 `json:"incarnation"`
	Number      int64 `json:"number"`
}

// After reports whether s is newer than o.
func (s Sequence) After(o Sequence) bool {
	return s.Incarnation > o.Incarnation || s.Incarnation == o.Incarnation && s.Number > o.Number
}

// Measurement is the whole advertisement that an agent sends to its broker. It is not signed. The
// broker may not change it.
type Measurement struct {
	Sequence Sequence `json:"sequence"`
	// Terms say who may see the cluster and reserve from it. Nil: the cluster shares nothing and is
	// only a consumer.
	Terms *Terms `json:"terms,omitempty"`
	// Pools are the kinds of capacity, at most 16.
	Pools map[string]Pool `json:"pools,omitempty"`
	// Brokers are the names of the brokers at which the cluster shares: see Sharing.Brokers. They
	// never leave the cluster.
	Brokers []string `json:"-"`
}

// Pool is one kind of capacity in an advertisement.
type Pool struct {
	// Capacity and Allocatable are summed over the nodes that count: Ready, uncordoned, not virtual.
	Capacity    Resources `json:"capacity,omitempty"`
	Allocatable Resources `json:"allocatable,omitempty"`
	// Allocated is what pods request that do not run under a reservation.
	Allocated Resources `json:"allocated,omitempty"`
	// Shared is the upper bound for all reservations. It follows from the SharingPolicy and Allocatable.
	Shared Resources `json:"shared,omitempty"`
	// Accounts are the commitments to each consumer, and what its pods use. A broker gets only those
	// that were made there.
	Accounts map[string]AccountUse `json:"accounts,omitempty"`
	// Elsewhere is the rest. Nil: there is none.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Shapes are the free amounts of the nodes that count, at most 16 shapes. A node is in at most
	// one of them. Each shape errs on the low side.
	Shapes []Shape `json:"shapes,omitempty"`
	// Sources are the parts of Allocatable by the provider behind a hub's virtual nodes. They never
	// leave the hub.
	Sources map[string]Resources `json:"-"`
	// Unverified is the part of Allocatable that virtual nodes have that no reservation made. It
	// never leaves the hub.
	Unverified Resources `json:"-"`
}

// Shape says that a number of nodes each have at least an amount free: allocatable less what their
// pods request.
type Shape struct {
	Nodes int64     `json:"nodes"`
	Free  Resources `json:"free"`
}

// AccountUse is a provider's report about one consumer's account in a pool.
type AccountUse struct {
	// Commitments are the sizes of the reservations that the provider has accepted, by ID.
	Commitments map[string]Resources `json:"commitments,omitempty"`
	// Sold are the units of plans, for the commitments that were bought, by ID.
	Sold map[string]SoldUnits `json:"sold,omitempty"`
	// Used is what the consumer's pods request.
	Used Resources `json:"used,omitempty"`
}

// Elsewhere is what a cluster lends of a pool without the broker that reads it: through another
// broker, at its connector, or by hand. It names nobody.
type Elsewhere struct {
	// Reserved is the sum of the commitments. Of a consumer that uses more than these, its use counts.
	Reserved Resources `json:"reserved,omitempty"`
	// Used is what the pods request.
	Used Resources `json:"used,omitempty"`
	// Sold are the units of plans that everybody may buy, each plan once.
	Sold []SoldUnits `json:"sold,omitempty"`
}

// SoldUnits are sold units of a plan.
type SoldUnits struct {
	// Offer and Plan are names.
	Offer string `json:"offer"`
	Plan  string `json:"plan"`
	Units int64  `json:"units"`
}

// MeasurementDelta changes the advertisement at the broker. A named part replaces the old one, and
// a null removes it. An empty delta renews the lease.
type MeasurementDelta struct {
	// Base is the advertisement that this changes. If the broker has another one, the error is
	// StaleAdvertisement.
	Base     Sequence `json:"base"`
	Sequence Sequence `json:"sequence"`
	// Pools are the changed pools. Null removes a pool.
	Pools map[string]*PoolDelta `json:"pools,omitempty"`
}

// PoolDelta replaces the named parts of a pool.
type PoolDelta struct {
	Capacity    Resources              `json:"capacity,omitempty"`
	Allocatable Resources              `json:"allocatable,omitempty"`
	Allocated   Resources              `json:"allocated,omitempty"`
	Shared      Resources              `json:"shared,omitempty"`
	Accounts    map[string]*AccountUse `json:"accounts,omitempty"`
	Elsewhere   *Elsewhere             `json:"elsewhere,omitempty"`
	Shapes      []Shape                `json:"shapes,omitempty"`
}

// Amounts are the amounts of a pool in Kubernetes' terms. Available = min(shared, allocatable -
// allocated) - reserved.
type Amounts struct {
	Capacity    Resources `json:"capacity,omitempty"`
	Allocatable Resources `json:"allocatable,omitempty"`
	Allocated   Resources `json:"allocated,omitempty"`
	Shared      Resources `json:"shared,omitempty"`
	Reserved    Resources `json:"reserved,omitempty"`
	// Available may be negative: the provider is then Overcommitted.
	Available Resources `json:"available,omitempty"`
	// Shapes are the free amounts of the nodes. Only a cluster's own Advertisement has them: the
	// broker does not show them to other members.
	Shapes []Shape `json:"shapes,omitempty"`
}

// Cluster is a member as another member sees it.
type Cluster struct {
	Properties Properties `json:"properties"`
	// Card is the signed card (JWS) that the properties come from.
	Card string `json:"card,omitempty"`
	// Fresh says that the agent's lease is alive. FreshUntil is when the lease ends.
	Fresh      bool        `json:"fresh"`
	FreshUntil metav1.Time `json:"freshUntil,omitzero"`
	// HeardAgo is how long before its answer the broker last heard from the agent, in whole seconds: no other clock
	// counts. Absent: it has not heard from it since it started.
	HeardAgo *metav1.Duration `json:"heardAgo,omitempty"`
	Sequence Sequence         `json:"sequence,omitzero"`
	// Uptime is the share of the last 30 days in which the lease was alive, in parts per million,
	// rounded down. Time that the broker did not see does not count. Absent: the broker has seen
	// the cluster for less than 24h; it then satisfies no bound.
	Uptime *int64 `json:"uptime,omitempty"`
	// Honoured is the share of its promises of the last 30 days that the cluster kept as a
	// provider, in parts per million, rounded down. Absent: it made fewer than five promises; it
	// then satisfies no bound.
	Honoured *int64 `json:"honoured,omitempty"`
	// Pools are the shared amounts, by pool.
	Pools map[string]Amounts `json:"pools,omitempty"`
	// Overcommitted says that the reservations exceed what the cluster has now.
	Overcommitted bool `json:"overcommitted,omitempty"`
	// PassedOver is why the reading cluster's own agent passes over the cluster for each new request:
	// a code and a sentence, "Disabled" if it chose others at its broker. Empty: it does not. A broker leaves it empty.
	PassedOver string `json:"passedOver,omitempty"`
	// PassedOverError is why the reading cluster's own agent cannot say whether it passes over the cluster.
	PassedOverError string `json:"passedOverError,omitempty"`
}
