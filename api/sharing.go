package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sharing says what a provider's admin lends, and to whom. It is the spec of the SharingPolicy
// named "default". Without that policy the cluster shows and shares nothing.
//
// +kubebuilder:validation:XValidation:rule="!self.pools.exists(p, has(p.virtualNodes)) || size(self.pools) == 1 && (!has(self.network) || self.network == 'none') && (!has(self.relend) || !self.relend)",message="a pool with virtualNodes is the only pool, without a network (network: none), and is not lent on again (relend: false)"
type Sharing struct {
	// Terms say who may see this cluster and reserve from it.
	Terms `json:",inline"`
	// OnRevoke says what happens to the peering of a consumer when the broker says that it is no
	// member any more. `none`: nothing. `cordon`: Liqo admits none of its new pods. `drain`: Liqo
	// removes the consumer's rights and everything that it has here. A cluster that is only
	// suspended is cordoned, not drained. The agent undoes it when the cluster is a member again.
	// It does not touch hand-made peerings, nor peerings that an admin cordoned or drained. Default
	// none: the broker's word alone ends nothing.
	// +optional
	OnRevoke RevokeAction `json:"onRevoke,omitempty"`
	// Network is the network that consumers may have between their pods and the pods here.
	// `wireguard`: Liqo's network, if the agent's --network-gateway allows it. `none`: no network.
	// Default none. The agent checks this when a network begins. A network that exists lasts as
	// long as its reservations.
	// +optional
	Network NetworkMode `json:"network,omitempty"`
	// APIServerAccess says how consumers reach this cluster's API server, which their Liqo needs.
	// `direct`: at the address that this cluster's Liqo publishes. `network`: only through the
	// network, by Liqo's own proxy at its end. That needs `network: wireguard`, and only requests
	// with a network are served. Default direct. The agent checks this when a peering begins. A
	// peering that exists does not change.
	// +optional
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
	// ResourcePlugin has no effect. Deprecated: the agent no longer asks resource plugins of Liqo
	// 0.5 to 0.10. A policy with this field stays valid, and its condition `IgnoredFields` names
	// the field. Set maxPerConsumer, or the pools' percentage, caps and headroom.
	// +kubebuilder:validation:MaxLength=259
	// +optional
	ResourcePlugin string `json:"resourcePlugin,omitempty"`
	// Labels appear on the card. Requests match them with `properties`. Names and values have at
	// most 256 printable characters.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule=`self.all(name, size(name) <= 256 && size(self[name]) <= 256 && (name + self[name]).matches(r'^[ \pL\pM\pN\pP\pS]*$'))`,message="the name and the value of a label have at most 256 printable characters each"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// GPULabels are labels of nodes that name the model of their GPUs or other accelerators, beside those that the
	// agent knows. Their values are `gpus` of the card, which requests and searches select. The resource of an
	// accelerator, such as "example.com/npu", needs no name here: all that nodes have is advertised. Default: none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`
	// +optional
	GPULabels []string `json:"gpuLabels,omitempty"`
	// Pools are the kinds of capacity that the cluster shares. Each has its own nodes, and its own
	// virtual node at each consumer. Most clusters have one, named "general".
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pools []PoolPolicy `json:"pools"`
	// Namespaces sets the rules for the namespaces that Liqo makes here for consumers.
	// +optional
	Namespaces *NamespacePolicy `json:"namespaces,omitempty"`
	// Brokers are the names of the brokers at which the cluster shares, as `bourse brokers` lists
	// them. At the others it is only a consumer: it shows no capacity and no offer there, and its
	// agent accepts nothing new. Reservations that were made there stay to their end. The cluster's
	// own connector is no broker: it always shows what is shared. Empty: all brokers.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Brokers []string `json:"brokers,omitempty"`
}

// TrustLevel says which keys of other clusters the agent trusts.
//
// +kubebuilder:validation:Enum=tofu;pinned;legacy
type TrustLevel string

const (
	TrustTofu   TrustLevel = "tofu"   // trust on first use: the first contact believes the broker
	TrustPinned TrustLevel = "pinned" // a key must have been confirmed
	TrustLegacy TrustLevel = "legacy" // as tofu, and clusters without a key are taken at the broker's word
)

// RevokeAction says what a provider does about a consumer that is no member any more.
//
// +kubebuilder:validation:Enum=none;cordon;drain
type RevokeAction string

const (
	RevokeNone   RevokeAction = "none"
	RevokeCordon RevokeAction = "cordon"
	RevokeDrain  RevokeAction = "drain"
)

// Terms say who may see a provider and reserve from it. The broker filters by them, and the
// provider's own gate evaluates them again.
type Terms struct {
	// Trust says which keys of other clusters the agent trusts, for lending and for borrowing.
	// `tofu`: trust on first use, every key that was seen first and has not changed. `pinned`: only
	// keys that an admin confirmed (see Peer). `legacy`: as tofu, and also keys that the broker
	// holds for clusters whose agents are prototypes without keys. For those clusters only the
	// broker vouches. Default tofu.
	// +optional
	Trust TrustLevel `json:"trust,omitempty"`
	// VisibleTo says which members see the card. Empty: every member.
	// +optional
	VisibleTo Audience `json:"visibleTo,omitzero"`
	// Allow is a CEL expression over `consumer` (cluster, region, labels ...) and `request`
	// (resources in the units of `where`, pool, seconds). A reservation needs it to be true.
	// Default: true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Allow string `json:"allow,omitempty"`
	// Relend says that consumers may lend on what they reserve here: see Request.Relend. The
	// provider then sees only the hub, and not its customers. Default false.
	// +optional
	Relend bool `json:"relend,omitempty"`
	// OnlyOffers says that this cluster lends only what consumers buy from its offers. Default false.
	// +optional
	OnlyOffers bool `json:"onlyOffers,omitempty"`
	// ApproveWithin says that an admin here approves each reservation without an offer (bourse
	// approve), and how long a consumer waits for that: one minute to 24 h. The capacity is held
	// meanwhile. Absent: the agent answers at once. For sales, the Offer has its own field.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
	// MaxPerReservation is the upper bound for one reservation, for the resources that it names.
	// +optional
	MaxPerReservation Resources `json:"maxPerReservation,omitempty"`
	// MaxPerConsumer is the upper bound for all reservations of one consumer together.
	// +optional
	MaxPerConsumer Resources `json:"maxPerConsumer,omitempty"`
	// MaxDuration is the longest duration of a reservation. Default: this provider sets no bound.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
}

// Audience is a set of members: those that are named, and those whose labels match. If both fields
// are empty, it is every member.
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

// NamespacePolicy sets the rules for the namespaces that Liqo makes here for consumers. It cannot
// be laxer than the admission policies on pods, which enforce Kubernetes' baseline standard.
type NamespacePolicy struct {
	// PodSecurity is the Pod Security Standard that pods must meet. Default baseline.
	// +optional
	PodSecurity PodSecurity `json:"podSecurity,omitempty"`
	// RequireLimits refuses pods that have a container without limits of cpu and memory. Default false.
	// +optional
	RequireLimits bool `json:"requireLimits,omitempty"`
	// Max is the largest number of namespaces of one consumer. A hub has those of all its customers
	// here. The card shows it, and consumers stop before they reach it (NamespacesFull). Default 64.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Max int32 `json:"max,omitempty"`
	// Quota bounds, in each namespace, what no reservation counts: by the keys and units of a
	// ResourceQuota of Kubernetes, objects as a number, storage in bytes. Default:
	// "services.loadbalancers", "services.nodeports" and "count/ingresses.networking.k8s.io" 0;
	// "services" 100; "persistentvolumeclaims" 20; "requests.storage" 200Gi of all of them together
	// (0 where a pool lends storage: it is then what is reserved); "count/secrets" and
	// "count/configmaps" 200; "pods" 1000; "count/shadowpods.offloading.liqo.io" 1000;
	// "count/shadowendpointslices.offloading.liqo.io" 200. All namespaces of a consumer together
	// have at most three times as many Services, Secrets, ConfigMaps, ShadowPods and
	// ShadowEndpointSlices. What is named here replaces or joins these, also
	// "fast.storageclass.storage.k8s.io/requests.storage". Of what is granted ("requests.cpu" and
	// the like, "pods") the quota is never more.
	// +optional
	Quota Resources `json:"quota,omitempty"`
	// Network says what the consumers' pods can reach. Default Isolated.
	// +optional
	Network NetworkIsolation `json:"network,omitempty"`
	// Except are networks that pods do not reach while Network is Isolated, in addition to private
	// ones. An example is the nodes' public addresses. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Format=cidr
	// +optional
	Except []string `json:"except,omitempty"`
	// Annotations are further annotation keys that consumers may use. On Services, Ingresses and
	// claims, only keys that no controller acts on are allowed without this field. On pods, keys
	// that networks and container runtimes act on are refused without it. Controllers of load
	// balancers, DNS, gateways and volumes act on annotations in any namespace: name only what any
	// consumer may ask of them. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[^,]+$`
	// +optional
	Annotations []string `json:"annotations,omitempty"`
}

// DefaultNamespaces is the default of [NamespacePolicy.Max], and MaxNamespaces its upper bound.
const DefaultNamespaces, MaxNamespaces = 64, 1024

// PodSecurity is one of Kubernetes' Pod Security Standards.
//
// +kubebuilder:validation:Enum=baseline;restricted
type PodSecurity string

// The Pod Security Standards that can be asked for.
const (
	PodSecurityBaseline   PodSecurity = "baseline"
	PodSecurityRestricted PodSecurity = "restricted"
)

// NetworkIsolation says what pods of consumers can reach.
//
// +kubebuilder:validation:Enum=Isolated;Open
type NetworkIsolation string

const (
	// NetworkIsolated: pods reach each other, the same consumer's other namespaces, DNS and the
	// internet. They do not reach private addresses.
	NetworkIsolated NetworkIsolation = "Isolated"
	// NetworkOpen: pods reach everything that the cluster lets pods reach.
	NetworkOpen NetworkIsolation = "Open"
)
