package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sharing is what a provider's admin decides to lend, to whom. The spec of the
// SharingPolicy named "default"; without one nothing is shown or shared.
type Sharing struct {
	// Terms say who may see this cluster and reserve from it.
	Terms `json:",inline"`
	// OnRevoke is what becomes of a peering in which a cluster borrows that the broker says is no member any more: `none`,
	// it goes on; `cordon`, Liqo lets no new pods in; `drain`, Liqo takes the consumer's rights and removes what it has
	// here. A cluster that is only suspended is cordoned, not drained. It is undone when the cluster is a member again. A
	// peering made by hand, and one that an admin cordoned or drained, is left alone. Default none: the broker's word
	// alone ends nothing.
	// +optional
	OnRevoke RevokeAction `json:"onRevoke,omitempty"`
	// Network is the most that consumers may have between their pods and those here: `wireguard`, Liqo's network, if the
	// agent's --network-gateway says that this cluster takes part, or `none`. Default none. It is asked when a network
	// begins; one that stands lasts as long as its reservations.
	// +optional
	Network NetworkMode `json:"network,omitempty"`
	// APIServerAccess is how consumers reach this cluster's API server, which their Liqo needs: `direct`, at the address that Liqo
	// here tells them, or `network`, only through the network, by Liqo's own proxy at its end. That takes `network: wireguard`, and
	// only requests that ask for a network are served. Default direct. It is asked when a peering begins; one that stands stays as
	// it is.
	// +optional
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
	// ResourcePlugin has no effect. Deprecated: the agent no longer asks resource plugins of Liqo 0.5 to 0.10. A policy that has the
	// field stays valid, and its condition `IgnoredFields` says so. Set maxPerConsumer, or the pools' percentage, caps and headroom.
	// +kubebuilder:validation:MaxLength=259
	// +optional
	ResourcePlugin string `json:"resourcePlugin,omitempty"`
	// Labels become the card's labels, which requests match with `properties`.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Pools are the kinds of capacity that are shared: each has nodes of its own, and a virtual node of its own at each
	// consumer. Mostly one, named "general".
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pools []PoolPolicy `json:"pools"`
	// Namespaces is what holds in the namespaces that Liqo makes here for consumers.
	// +optional
	Namespaces *NamespacePolicy `json:"namespaces,omitempty"`
}

// TrustLevel is how much must be known of another cluster's key.
//
// +kubebuilder:validation:Enum=tofu;pinned;legacy
type TrustLevel string

const (
	TrustTofu   TrustLevel = "tofu"   // trust on first use: the first contact believes the broker
	TrustPinned TrustLevel = "pinned" // a key must have been confirmed
	TrustLegacy TrustLevel = "legacy" // as tofu, and clusters without a key are taken at the broker's word
)

// RevokeAction is what a provider does about a consumer that is no member any more.
//
// +kubebuilder:validation:Enum=none;cordon;drain
type RevokeAction string

const (
	RevokeNone   RevokeAction = "none"
	RevokeCordon RevokeAction = "cordon"
	RevokeDrain  RevokeAction = "drain"
)

// Terms are who may see a provider and reserve from it. They go to the broker,
// which filters by them; the provider's own gate evaluates them again.
type Terms struct {
	// Trust says which keys of other clusters are believed, whether they lend or borrow: `tofu`, any that was first seen
	// and has not changed, `pinned`, only those that an admin confirmed (see Peer), or `legacy`, as tofu, and besides those that the
	// broker holds for clusters whose agents are of the prototypes and have none: of these, the broker's word is all there is.
	// Default tofu.
	// +optional
	Trust TrustLevel `json:"trust,omitempty"`
	// VisibleTo says to whom the card is shown. Empty: to every member.
	// +optional
	VisibleTo Audience `json:"visibleTo,omitzero"`
	// Allow is a CEL expression over `consumer` (cluster, region, labels ...) and `request`
	// (resources in the units of `where`, pool, seconds) that must be true for a
	// reservation. Default: true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Allow string `json:"allow,omitempty"`
	// OnlyOffers lends nothing but what is bought from this cluster's offers. Default false.
	// +optional
	OnlyOffers bool `json:"onlyOffers,omitempty"`
	// ApproveWithin says that a person here approves each reservation that is from no offer (bourse approve), and how long a consumer
	// waits for that: a minute to 24 h. What waits is held for it. Absent: the agent answers at once. Of what is sold, the Offer says it.
	// +optional
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
	// MaxPerReservation is the most that one reservation may take, for the resources it names.
	// +optional
	MaxPerReservation Resources `json:"maxPerReservation,omitempty"`
	// MaxPerConsumer is the most that all reservations of one consumer may take together.
	// +optional
	MaxPerConsumer Resources `json:"maxPerConsumer,omitempty"`
	// MaxDuration is the longest that a reservation may last. Default: no bound of this provider's.
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
}

// Audience is a set of members: those named and those whose labels match. Both
// empty is every member.
type Audience struct {
	// Clusters are cluster IDs.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Clusters []string `json:"clusters,omitempty"`
	// Labels must all be on the member's card.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// NamespacePolicy is what holds in the namespaces that Liqo makes here for consumers. It cannot be laxer than the
// admission policies on pods, which keep everyone to Kubernetes' baseline.
type NamespacePolicy struct {
	// PodSecurity is the Pod Security Standard that pods must meet. Default baseline.
	// +optional
	PodSecurity PodSecurity `json:"podSecurity,omitempty"`
	// RequireLimits refuses pods of which a container has no limits of cpu and memory. Default false.
	// +optional
	RequireLimits bool `json:"requireLimits,omitempty"`
	// Quota bounds, in each namespace, what no reservation counts: by the keys and units of a ResourceQuota of Kubernetes, objects as a number, storage in bytes. Default:
	// "services.loadbalancers", "services.nodeports" and "count/ingresses.networking.k8s.io" 0; "services" 100; "persistentvolumeclaims" 20; "requests.storage"
	// 200Gi of all of them together (0 where a pool lends storage: it is then what is reserved); "count/secrets" and "count/configmaps" 200; "pods" 1000;
	// "count/shadowpods.offloading.liqo.io" 1000; "count/shadowendpointslices.offloading.liqo.io" 200. All namespaces of a consumer together have at
	// most three times as many Secrets, ConfigMaps, ShadowPods and ShadowEndpointSlices. What is named here replaces or joins these, also
	// "fast.storageclass.storage.k8s.io/requests.storage". Of what is granted ("requests.cpu" and the like, "pods") the quota is never more.
	// +optional
	Quota Resources `json:"quota,omitempty"`
	// Network says whom pods reach. Default Isolated.
	// +optional
	Network NetworkIsolation `json:"network,omitempty"`
	// Except are networks that pods do not reach while Network is Isolated, besides private ones: those of the nodes' public addresses, for
	// instance. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Format=cidr
	// +optional
	Except []string `json:"except,omitempty"`
	// Annotations are the keys that Services, Ingresses and claims may have besides those on which no controller acts, and pods of those on
	// which networks and container runtimes act. Controllers of load balancers, DNS, gateways and volumes act on annotations in any
	// namespace: name only what any consumer may ask of them. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[^,]+$`
	// +optional
	Annotations []string `json:"annotations,omitempty"`
}

// PodSecurity is one of Kubernetes' Pod Security Standards.
//
// +kubebuilder:validation:Enum=baseline;restricted
type PodSecurity string

// The Pod Security Standards that can be asked for.
const (
	PodSecurityBaseline   PodSecurity = "baseline"
	PodSecurityRestricted PodSecurity = "restricted"
)

// NetworkIsolation is whom pods of consumers reach.
//
// +kubebuilder:validation:Enum=Isolated;Open
type NetworkIsolation string

const (
	// NetworkIsolated: each other, the same consumer's other namespaces, DNS and the internet; not private addresses.
	NetworkIsolated NetworkIsolation = "Isolated"
	// NetworkOpen: whatever the cluster lets pods reach.
	NetworkOpen NetworkIsolation = "Open"
)

// PoolPolicy is what is shared of the nodes of one pool. The amount shared is
// the smallest of: Percentage of allocatable, Caps, and allocatable less Headroom.
type PoolPolicy struct {
	// Name is what requests call it; "general" is what they mean that name none.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// NodeSelector picks the pool's nodes by label, and keeps consumers' pods on them. Empty: all.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// TolerateTaints are keys of NoSchedule and NoExecute taints that do not exclude a node.
	// Nodes with other such taints do not count. Consumers' pods may tolerate these.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=316
	// +optional
	TolerateTaints []string `json:"tolerateTaints,omitempty"`
	// Percentage of allocatable, 0 to 100. Default 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`
	// Caps are absolute upper bounds for the resources they name.
	// +optional
	Caps Resources `json:"caps,omitempty"`
	// Headroom is kept back from allocatable for the cluster's own future.
	// +optional
	Headroom Resources `json:"headroom,omitempty"`
	// Resources, if not empty, are the only resources that are shared.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=316
	// +optional
	Resources []string `json:"resources,omitempty"`
	// Storage is how much of persistent volumes is lent, as the resource "storage": nodes do not tell it, so it is what is left for
	// others beside this cluster's own. What a consumer reserved of it bounds, as requests.storage, its namespaces here together;
	// whoever reserved none gets none, unless namespaces.quota says how much each namespace may have. Default: none is lent.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
	// StorageClasses, IngressClasses and LoadBalancerClasses are what consumers' virtual nodes offer besides, by their names in
	// this cluster; the first of each is the default. Empty: none. Claims of consumers name one of StorageClasses, and no other. How much
	// they may have is namespaces.quota, which can name a class ("slow.storageclass.storage.k8s.io/requests.storage": "0").
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	StorageClasses []string `json:"storageClasses,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	IngressClasses []string `json:"ingressClasses,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty"`
	// RuntimeClasses are those that pods of consumers may choose. Each can give a pod devices that nothing counts, or tolerations. Empty: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
	// Placeholders has no effect. Deprecated: the agent no longer makes pods that hold what is reserved. A policy that has the
	// field stays valid, and its condition `IgnoredFields` says so. Reserve nodes by a label and a taint (nodeSelector, tolerateTaints).
	// +optional
	Placeholders *Placeholders `json:"placeholders,omitempty"`
}

// Placeholders is what a policy of an earlier version may hold.
//
// Deprecated: it has no effect.
type Placeholders struct {
	// PriorityClass has no effect.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`
	// Image has no effect.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`
}

// Pool is what is shared of the pool of a name; nil if nothing is.
func (s *Sharing) Pool(name string) *PoolPolicy {
	if s == nil {
		return nil
	}
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}
