package api

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualNodePoolLabel is the label of the virtual nodes of a VirtualNodePool, and of its requests.
const VirtualNodePoolLabel = Group + "/virtual-node-pool"

// VirtualNodesFinalizer delays the deletion of a VirtualNodePool until its virtual nodes are empty.
const VirtualNodesFinalizer = Group + "/virtual-nodes"

// BurstTaint is the taint, with effect PreferNoSchedule, of the virtual nodes of a VirtualNodePool
// whose pods may also run at home: the scheduler then prefers this cluster's own nodes.
const BurstTaint = Group + "/burst"

// Conditions of a VirtualNodePool besides Ready, which says that its demand is met. It also has Suspended, Granted,
// Reflected and PodsComply of its reservations, while one of its providers has that fault.
const (
	// ConditionLimited: there is demand that the pool does not serve. Reasons: Max, MaxPrice, AtMost,
	// Spread, NoCandidate, CapReached, TooFar, BrokerUnavailable, Waiting, PodsKeep.
	ConditionLimited = "Limited"
	// ConditionExtended is False if a reservation was not extended in time.
	ConditionExtended = "Extended"
	// ConditionDrifted: the template was edited since a provider was chosen, or a provider no longer meets it.
	ConditionDrifted = "Drifted"
	// PoolProviderDisabled is the reason of Drifted for a provider that was disabled at the broker.
	PoolProviderDisabled = "Disabled"
	// ConditionAllNotReady: most virtual nodes are not Ready, or no broker answers. Nothing is replaced.
	ConditionAllNotReady = "AllNotReady"
	// ConditionVolumesKeep: a provider that should go has volumes, and stays until an admin gives them up.
	ConditionVolumesKeep = "VolumesKeep"
	// ConditionNamespaceTaken: another VirtualNodePool, which is older, has one of the namespaces.
	ConditionNamespaceTaken = "NamespaceTaken"
	// ConditionNamespacesFull: a provider maps no more namespaces of this cluster, so pods of some of the pool's
	// namespaces cannot run there.
	ConditionNamespacesFull = "NamespacesFull"
)

// IsFaultOfPool reports whether a condition of a VirtualNodePool, or of a reservation of it, is not as it should be.
func IsFaultOfPool(c metav1.Condition) bool {
	switch c.Type {
	case ConditionReady, ConditionExtended, ConditionOffloaded, ConditionGranted, ConditionReflected, ConditionPodsComply:
		return c.Status == metav1.ConditionFalse
	}
	return c.Status == metav1.ConditionTrue
}

// VirtualNodePool is a set of virtual nodes that this cluster keeps as large as demand needs, from
// providers that meet criteria. An admin writes it. Deleting it drains its
// virtual nodes and releases its reservations.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vnp,categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 57",message="the name of a VirtualNodePool has at most 57 of a-z, 0-9 and -"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.cpu`,description="used/reserved/max"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.memory`,description="used/reserved/max"
// +kubebuilder:printcolumn:name="Providers",type=integer,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.cost`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.why`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualNodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              VirtualNodePoolSpec   `json:"spec"`
	Status            VirtualNodePoolStatus `json:"status,omitempty"`
}

// VirtualNodePoolSpec has the demand of a VirtualNodePool and its bounds.
// +kubebuilder:validation:XValidation:rule="!has(self.demand) || self.demand != 'Fixed' || has(self.min)",message="demand: Fixed needs min"
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || has(self.demand) && self.demand == 'Fixed'",message="name the namespaces whose pods may run there; only with demand: Fixed, as in a hub, there may be none"
// +kubebuilder:validation:XValidation:rule="size(self.max) > 0 && size(self.max) <= 16",message="max names 1 to 16 resources"
type VirtualNodePoolSpec struct {
	// Namespaces are those whose pods may run on the virtual nodes. A namespace is in one
	// VirtualNodePool: the oldest that names it. A hub that only lends on what it borrows names none.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Offload says how these namespaces are offloaded.
	// +optional
	Offload PoolOffload `json:"offload,omitzero"`
	// Demand is what the size follows. `Pods`: pods of the namespaces that cannot be scheduled, and those
	// that run on the virtual nodes. `Fixed`: it stays at min. Default Pods.
	// +optional
	Demand PoolDemand `json:"demand,omitempty"`
	// PendingFor is how long a pod must be Unschedulable before it counts. Default 30s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	PendingFor *metav1.Duration `json:"pendingFor,omitempty"`
	// Min is reserved even without demand. Default nothing.
	// +optional
	Min Resources `json:"min,omitempty"`
	// Max is the most that is reserved of all providers together. A resource that it does not name is
	// not reserved.
	Max Resources `json:"max"`
	// MaxPrice is the most that all reservations together may cost. Default: nothing is bought.
	// +optional
	MaxPrice *Price `json:"maxPrice,omitempty"`
	// Template is what each reservation asks for besides its size. An edit takes effect at the next
	// extension of a reservation.
	// +optional
	Template ReservationTemplate `json:"template,omitzero"`
	// Providers says which providers may serve the pool.
	// +optional
	Providers PoolProviders `json:"providers,omitzero"`
	// MaxLatency is the longest that this agent may take to open a TLS connection to the API server of a
	// provider that is to be used. Default: no limit.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	MaxLatency *metav1.Duration `json:"maxLatency,omitempty"`
	// ScaleDownAfter is how long more than five quarters of the demand must be reserved before the
	// pool shrinks. Default 10m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	ScaleDownAfter *metav1.Duration `json:"scaleDownAfter,omitempty"`
	// Replace says which providers are replaced. Default OnFailure.
	// +optional
	Replace PoolReplace `json:"replace,omitempty"`
}

// PoolOffload says how the namespaces of a VirtualNodePool are offloaded.
type PoolOffload struct {
	// Strategy says where pods of the namespaces may run. Default LocalAndRemote.
	// +optional
	Strategy OffloadStrategy `json:"strategy,omitempty"`
	// Reflect says what Liqo copies to the providers besides pods.
	// +optional
	Reflect *Reflect `json:"reflect,omitempty"`
}

// PoolDemand is what the size of a VirtualNodePool follows.
// +kubebuilder:validation:Enum=Pods;Fixed
type PoolDemand string

// What the size of a VirtualNodePool follows.
const (
	DemandPods  PoolDemand = "Pods"
	DemandFixed PoolDemand = "Fixed"
)

// PoolReplace says which providers of a VirtualNodePool are replaced.
// +kubebuilder:validation:Enum=OnFailure;OnDrift;Never
type PoolReplace string

// Which providers of a VirtualNodePool are replaced.
const (
	ReplaceOnFailure PoolReplace = "OnFailure" // those that are gone, or do not extend
	ReplaceOnDrift   PoolReplace = "OnDrift"   // also those that no longer meet the template
	ReplaceNever     PoolReplace = "Never"
)

// ReservationTemplate is what each reservation of a VirtualNodePool asks for besides its size. The
// fields are those of a request.
type ReservationTemplate struct {
	// Where is a CEL expression over a provider's properties that must be true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Where string `json:"where,omitempty"`
	// Strategy is the weighting of the scorers. Default balance.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`
	// Network is the network between pods of this cluster and of the providers. Default none.
	// +optional
	Network NetworkMode `json:"network,omitempty"`
	// Duration is how long a reservation lasts. It is extended when half of that is left. Default 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Broker names the broker to ask. Default: the first that is enabled and answers.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Broker string `json:"broker,omitempty"`
	// Relend says that this cluster lends on what is reserved: it is a hub. Default false.
	// +optional
	Relend bool `json:"relend,omitempty"`
	// Aggregated says that hubs are considered, too. Default false.
	// +optional
	Aggregated bool `json:"aggregated,omitempty"`
}

// PoolProviders says which providers may serve a VirtualNodePool.
type PoolProviders struct {
	// Only are the only providers to consider. Default: all that meet the template.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Only []string `json:"only,omitempty"`
	// Exclude are providers not to consider.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Exclude []string `json:"exclude,omitempty"`
	// AtMost is the largest number of providers at once. Default 8.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	AtMost int32 `json:"atMost,omitempty"`
	// Spread is the smallest number of providers among which max is divided: none gets more than
	// max/spread. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	Spread int32 `json:"spread,omitempty"`
}

// Admits reports whether a provider may serve the pool.
func (p PoolProviders) Admits(provider string) bool {
	return (len(p.Only) == 0 || slices.Contains(p.Only, provider)) && !slices.Contains(p.Exclude, provider)
}

// Admit returns providers that admit one, or do not, and all others as before. The last one in Only stays
// there and is excluded, because an empty Only admits all.
func (p PoolProviders) Admit(provider string, admitted bool) PoolProviders {
	without := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name == provider })
	}
	switch {
	case admitted == p.Admits(provider):
	case !admitted && slices.Contains(p.Only, provider) && len(p.Only) > 1:
		p.Only = without(p.Only)
	case !admitted:
		p.Exclude = append(slices.Clone(p.Exclude), provider)
	default:
		if p.Exclude = without(p.Exclude); !p.Admits(provider) {
			p.Only = append(slices.Clone(p.Only), provider)
		}
	}
	return p
}

// Admission says whether a provider may serve a VirtualNodePool.
type Admission struct {
	Admitted bool `json:"admitted"`
}

// KnownVirtualNodePool is a VirtualNodePool as an agent's listener shows it. Its ID is its name.
type KnownVirtualNodePool struct {
	Spec   VirtualNodePoolSpec   `json:"spec"`
	Status VirtualNodePoolStatus `json:"status"`
}
