package api

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfirmAnnotation with the value "true" confirms a ResourceRequest whose spec says confirm.
const ConfirmAnnotation = "bourse.dev/confirm"

// Conditions of our objects. Each kind has Ready as its summary.
const (
	ConditionReady = "Ready"
	// ConditionReserved of a ResourceRequest: both sides are bound.
	ConditionReserved = "Reserved"
	// ConditionPeered of a ReservationInstruction: Liqo's handshake with the provider is done.
	ConditionPeered = "Peered"
	// ConditionGranted of an instruction: the provider's Liqo grants what it says.
	ConditionGranted = "Granted"
	// ConditionNodeReady of a ReservationInstruction: its virtual node is Ready.
	ConditionNodeReady = "NodeReady"
	// ConditionPodsComply of a ReservationInstruction: no pod in its namespaces waits because a
	// provider would refuse it, or because they use all that their requests reserve there.
	ConditionPodsComply = "PodsComply"
	// ConditionReflected of a ReservationInstruction: Liqo fails to copy no object of its
	// namespaces to the provider. The message also names what the request leaves out.
	ConditionReflected = "Reflected"
	// ReflectsMore is the reason of Offloaded and Reflected where more is copied to the provider than the request
	// allows, because the virtual nodes there share it.
	ReflectsMore = "ReflectsMore"
	// QuotaUsedUp is the reason of Reflected where the provider's Liqo refuses pods that are bound to the virtual
	// node: pods that have ended hold its quota until they are deleted.
	QuotaUsedUp = "QuotaUsedUp"
	// ConditionLabelsDropped of a ReservationInstruction, and of its ResourceRequest and VirtualNodePool: the provider
	// sends labels for the virtual node that it may not choose. The node does not get them. Absent: there are none.
	ConditionLabelsDropped = "LabelsDropped"
	// ConditionUpToDate says whether a bound reservation matches the current spec of its request.
	ConditionUpToDate = "UpToDate"
	// ConditionVolumesAtStake of a ResourceRequest: its end would delete volumes. Its deletion
	// waits, or its time ends within a day. Absent: neither.
	ConditionVolumesAtStake = "VolumesAtStake"
	// ConditionAwaitsApproval of a ProviderInstruction, and of its ResourceRequest: an admin of the
	// provider must approve it.
	ConditionAwaitsApproval = "AwaitsApproval"
	// ConditionAnswered of a ProviderInstruction: what the agent did about the last annotation bourse.dev/approve or
	// bourse.dev/refuse. Reasons: Approved, Refused; if nothing was changed: ChangedSince (it has another digest than
	// status.approval), Invalid (it has no digest), Suspended (the consumer is). Absent: there was no such annotation.
	ConditionAnswered = "Answered"
	// ConditionBreached of a Contract: its seller ended it early, without the notice of its plan.
	ConditionBreached = "Breached"
	// ConditionOverstaying of a ProviderInstruction: it has ended, and pods of its consumer still
	// use its resources.
	ConditionOverstaying = "Overstaying"
	// ConditionOffloaded of a ReservationInstruction, and of a VirtualNodePool: its namespaces are offloaded.
	ConditionOffloaded = "Offloaded"
	// ConditionUnknownBrokers of a SharingPolicy: it names brokers that this cluster has not joined.
	ConditionUnknownBrokers = "UnknownBrokers"
	// ConditionIgnoredFields of a SharingPolicy: it has fields that no longer have an effect.
	// Absent if it has none.
	ConditionIgnoredFields = "IgnoredFields"
	// ConditionCovered of a ProviderInstruction: the cluster really has the reserved amounts free.
	ConditionCovered = "Covered"
	// NodeNotReady is the reason for which an Active ResourceRequest is not Ready: no pod runs on
	// its virtual node.
	NodeNotReady = "NodeNotReady"
	// Changing is the reason for which a ResourceRequest is not UpToDate while its provider is asked to
	// accept the change.
	Changing = "Changing"
)

// ResourceRequest asks for resources of another cluster. Deleting it releases them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rr,categories=bourse
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Reservation",type=string,JSONPath=`.status.reservation`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.resources.memory`
// +kubebuilder:printcolumn:name="GPU",type=string,JSONPath=`.status.resources.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Asked CPU",type=string,JSONPath=`.spec.resources.cpu`,priority=1
// +kubebuilder:printcolumn:name="Asked memory",type=string,JSONPath=`.spec.resources.memory`,priority=1
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type ResourceRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec may change in its resources (or the units of its purchase) and its duration: the
	// reservation follows, if its provider agrees. For any other change, create another request.
	// +kubebuilder:validation:XValidation:rule="has(self.pool) == has(oldSelf.pool) && (!has(self.pool) || self.pool == oldSelf.pool) && has(self.where) == has(oldSelf.where) && (!has(self.where) || self.where == oldSelf.where) && has(self.properties) == has(oldSelf.properties) && (!has(self.properties) || self.properties == oldSelf.properties) && has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target) && has(self.exclude) == has(oldSelf.exclude) && (!has(self.exclude) || self.exclude == oldSelf.exclude) && has(self.prefer) == has(oldSelf.prefer) && (!has(self.prefer) || self.prefer == oldSelf.prefer) && has(self.strategy) == has(oldSelf.strategy) && (!has(self.strategy) || self.strategy == oldSelf.strategy) && has(self.confirm) == has(oldSelf.confirm) && (!has(self.confirm) || self.confirm == oldSelf.confirm) && has(self.podShape) == has(oldSelf.podShape) && (!has(self.podShape) || self.podShape == oldSelf.podShape) && has(self.wait) == has(oldSelf.wait) && (!has(self.wait) || self.wait == oldSelf.wait) && has(self.priority) == has(oldSelf.priority) && (!has(self.priority) || self.priority == oldSelf.priority) && has(self.split) == has(oldSelf.split) && (!has(self.split) || self.split == oldSelf.split) && has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network) && has(self.offload) == has(oldSelf.offload) && (!has(self.offload) || self.offload == oldSelf.offload) && has(self.purchase) == has(oldSelf.purchase) && (!has(self.purchase) || self.purchase.seller == oldSelf.purchase.seller && self.purchase.offer == oldSelf.purchase.offer && self.purchase.plan == oldSelf.purchase.plan && has(self.purchase.digest) == has(oldSelf.purchase.digest) && (!has(self.purchase.digest) || self.purchase.digest == oldSelf.purchase.digest))",message="only the resources, the units and the duration of a request can change: delete it and make another"
	Spec   ResourceRequestSpec   `json:"spec"`
	Status ResourceRequestStatus `json:"status,omitempty"`
}

// ResourceRequestSpec is the request to the broker, and how this cluster uses the reservation.
type ResourceRequestSpec struct {
	Request `json:",inline"`
	// Offload says which namespaces use the reservation. Empty: the virtual node is ready for every
	// NamespaceOffloading that selects it.
	// +optional
	Offload *Offload `json:"offload,omitempty"`
	// Broker names the broker to ask (bourse brokers). Default: the first that is enabled and
	// answers. The request stays at its broker.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Broker string `json:"broker,omitempty"`
	// Via says where a purchase is made. Default: Broker.
	// +optional
	Via Via `json:"via,omitempty"`
}

// Via is where a purchase is made.
// +kubebuilder:validation:Enum=Auto;Direct;Broker
type Via string

const (
	// ViaAuto is the seller's connector if it is known and answers, else a broker.
	ViaAuto Via = "Auto"
	// ViaDirect is the seller's connector. ViaBroker is a broker, and while none is reached the connector.
	ViaDirect Via = "Direct"
	ViaBroker Via = "Broker"
)

// ResourceRequestStatus is the state of a request.
type ResourceRequestStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// State is the state of the reservation, Reservation its ID at the broker (`bourse why ID`).
	State       State  `json:"state,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	Provider    string `json:"provider,omitempty"`
	// Resources is the size in force, which both clusters signed. Absent: none is in force yet, or no
	// longer. The size that is asked for is in the spec; the condition UpToDate compares the two.
	Resources Resources    `json:"resources,omitempty"`
	Until     *metav1.Time `json:"until,omitempty"`
	Message   string       `json:"message,omitempty"`
	// Began is when the reservation in force was made: its duration counts from then. Generation is that of its
	// assignment, and Units is how many units of its plan it has (0: it is no purchase). Absent where Resources is.
	Began      *metav1.Time `json:"began,omitempty"`
	Generation int64        `json:"generation,omitempty"`
	Units      int64        `json:"units,omitempty"`
	// Parts are the reservations of a request that is split. Absent: it is not split.
	// +listType=map
	// +listMapKey=reservation
	Parts []RequestPart `json:"parts,omitempty"`
}

// RequestPart is one reservation of a request that is split. What it has is in the ReservationInstruction of its ID.
type RequestPart struct {
	Reservation string    `json:"reservation"`
	State       State     `json:"state,omitempty"`
	Provider    string    `json:"provider,omitempty"`
	Resources   Resources `json:"resources,omitempty"`
}

// WaitsForTurn is the reason of the condition Reserved while the agent serves other requests first.
const WaitsForTurn = "WaitsForTurn"

// Refused reports whether the request has a message instead of a reservation. A request that waits for its turn has
// no answer yet.
func (s *ResourceRequestStatus) Refused() bool {
	waits := slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool {
		return c.Type == ConditionReserved && c.Reason == WaitsForTurn
	})
	return s.State == "" && s.Message != "" && !waits
}

// Instruction is what an agent must carry out for one reservation.
type Instruction struct {
	// Reservation is the reservation's ID, Generation that of the assignment in force.
	Reservation string `json:"reservation"`
	Generation  int64  `json:"generation"`
	Consumer    string `json:"consumer"`
	Provider    string `json:"provider"`
	Pool        string `json:"pool"`
	// Slice is the name of the account's ResourceSlice.
	Slice     string      `json:"slice"`
	Resources Resources   `json:"resources"`
	Until     metav1.Time `json:"until"`
	// Assignment and Acceptance are the digests of the signed documents that bind both sides.
	Assignment string `json:"assignment,omitempty"`
	Acceptance string `json:"acceptance,omitempty"`
}

// InstructionStatus says how far the agent has carried out an instruction.
type InstructionStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	State      State              `json:"state,omitempty"`
	Reason     Reason             `json:"reason,omitempty"`
	// Granted is what Liqo allows of the reserved resources, Used what the pods of the reservation's
	// namespaces request of them. A provider does not know which reservation a namespace is for: it shows
	// Used for a reservation that is alone in its account, and for no other.
	Granted Resources `json:"granted,omitempty"`
	Used    Resources `json:"used,omitempty"`
	// SharedBy is how many reservations the account has, Account what all of them have together.
	SharedBy int         `json:"sharedBy,omitempty"`
	Account  *AccountSum `json:"account,omitempty"`
	// Namespaces are the amounts used, by namespace of the pods: at a provider, of all of the consumer's namespaces,
	// else of those that the request names.
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceUse `json:"namespaces,omitempty"`
	// Others is, of a ReservationInstruction, what pods of namespaces that its request does not name use of the
	// account. Absent: nothing. Their names are not for the users of this namespace.
	Others Resources `json:"others,omitempty"`
	// Approval is, of a ProviderInstruction that waits for an admin's approval, what to decide about.
	Approval *PendingApproval `json:"approval,omitempty"`
	// Answered are the values of annotations that were answered, by the name of the annotation after "bourse.dev/":
	// approve, refuse. The agent acts on no value twice.
	// +kubebuilder:validation:MaxProperties=8
	Answered map[string]string `json:"answered,omitempty"`
}

// PendingApproval is what an admin decides about: bourse approve, or bourse refuse.
type PendingApproval struct {
	// Digest stands for this object and the assignment that waits. The annotations bourse.dev/approve and
	// bourse.dev/refuse name it, so that an answer is to nothing else.
	Digest string `json:"digest,omitempty"`
	// Asked is when the request came, By until when it waits.
	Asked metav1.Time `json:"asked"`
	By    metav1.Time `json:"by"`
	// Offer and Plan are names, Units is the number of units, and Price that of one ("0.08 EUR/hour").
	// Empty: the request is for no offer.
	Offer string `json:"offer,omitempty"`
	Plan  string `json:"plan,omitempty"`
	Units int64  `json:"units,omitempty"`
	Price string `json:"price,omitempty"`
}

// AccountSum is what Liqo allows for an account, and what all its pods request, both for the resources that the
// reservation reserves.
type AccountSum struct {
	Granted Resources `json:"granted,omitempty"`
	Used    Resources `json:"used,omitempty"`
}

// NamespaceUse is what the pods of a namespace request at the provider.
type NamespaceUse struct {
	Name string    `json:"name"`
	Used Resources `json:"used,omitempty"`
	// Shared says that the namespace does not belong to this reservation alone: other reservations
	// of the account name it, too.
	Shared bool `json:"shared,omitempty"`
}

// ReservationInstruction is what a consumer's agent carries out. It is in the namespace of the request.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ri,categories=bourse
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.slice`,priority=1
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.resources.cpu`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.granted.cpu`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used.cpu`
// +kubebuilder:printcolumn:name="Account granted",type=string,JSONPath=`.status.account.granted.cpu`,priority=1
// +kubebuilder:printcolumn:name="Account used",type=string,JSONPath=`.status.account.used.cpu`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.resources.memory`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReservationInstruction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Instruction       `json:"spec"`
	Status            InstructionStatus `json:"status,omitempty"`
}

// ProviderInstruction is what a provider's agent accepted and carries out: a projection of its Ledger.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pi,categories=bourse
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumer`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.slice`,priority=1
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.resources.cpu`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.granted.cpu`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used.cpu`
// +kubebuilder:printcolumn:name="Account granted",type=string,JSONPath=`.status.account.granted.cpu`,priority=1
// +kubebuilder:printcolumn:name="Account used",type=string,JSONPath=`.status.account.used.cpu`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.resources.memory`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProviderInstruction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Instruction       `json:"spec"`
	Status            InstructionStatus `json:"status,omitempty"`
}

// SharingPolicy says what this cluster lends, and to whom. Only the one named "default" counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sp,categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the SharingPolicy of a cluster is named \"default\""
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SharingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Sharing             `json:"spec"`
	Status            SharingPolicyStatus `json:"status,omitempty"`
}

// SharingPolicyStatus says whether the policy is in force.
type SharingPolicyStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Agent records which agent this cluster has. Only the one named "default" counts, and only the agent writes it. It
// outlives the agent's namespace, so that an agent which lost its key or its Ledger is noticed: an agent with another
// key or another Ledger leaves the record, and reports IdentityReplaced. No policy takes it as its parameter.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the Agent of a cluster is named \"default\""
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.cluster`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.status.namespace`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.status.fingerprint`
// +kubebuilder:printcolumn:name="Ledger",type=string,JSONPath=`.status.ledger`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            RecordedAgent `json:"status,omitempty"`
}

// AgentName is the name of the only Agent that counts.
const AgentName = "default"

// RecordedAgent tells an agent from another one of the same cluster, also from one that lost what it had.
type RecordedAgent struct {
	// Fingerprint is that of the cluster key.
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`
	// Ledger is the lineage of its Ledger: a new one begins where there is no Ledger.
	// +kubebuilder:validation:MaxLength=64
	Ledger string `json:"ledger,omitempty"`
	// Cluster is the ID of the cluster.
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`
	// Namespace is where the agent keeps its key, its Ledger and its other objects.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Version is that of the agent's software.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
}

// Advertisement is what this cluster measured and reports to its broker.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=adv,categories=bourse
// +kubebuilder:printcolumn:name="Published",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.pools.general.available.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.pools.general.available.memory`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.status.properties.region`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Advertisement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            AdvertisementStatus `json:"status,omitempty"`
}

// AdvertisementStatus is the newest measurement, less the gate's own reservations.
type AdvertisementStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Cluster    string             `json:"cluster,omitempty"`
	Properties Properties         `json:"properties,omitempty"`
	Pools      map[string]Amounts `json:"pools,omitempty"`
}

// MayDieAnnotation on the agent's namespace lets it be deleted, with the cluster's key and its Ledger.
const MayDieAnnotation = Group + "/may-die"
