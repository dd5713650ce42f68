package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeeringRole is the role of the other cluster.
type PeeringRole string

// Liqo's own words for the two sides.
const (
	RoleProvider PeeringRole = "Provider" // it lends to this cluster
	RoleConsumer PeeringRole = "Consumer" // it borrows from this cluster
)

// PeeringState is the state of a peering.
type PeeringState string

const (
	PeeringOpening   PeeringState = "Opening"   // the handshake is under way
	PeeringOpen      PeeringState = "Open"      // Liqo has what it needs
	PeeringLingering PeeringState = "Lingering" // no reservation uses it; it is kept for a while
	PeeringClosing   PeeringState = "Closing"   // its objects are being removed
)

// Conditions of a Peering, besides Ready and Member.
const (
	// ConditionMixedPeering: there is also a hand-made peering with the same cluster. Bourse does
	// not touch that one.
	ConditionMixedPeering = "MixedPeering"
	// ConditionNetworkReady, also of a ReservationInstruction whose request asks for it: the tunnel
	// between the two clusters is up. Absent if no request asks for a network.
	ConditionNetworkReady = "NetworkReady"
)

// Peering is one direction of Liqo's relationship with another cluster, made by Bourse:
// "milan.provider" if milan lends to this cluster, "milan.consumer" if it borrows. It shows and
// remembers its progress. The number of reservations that use it is derived, never stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:printcolumn:name="Peer",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Peering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a peering cannot be changed"
	Spec   PeeringSpec   `json:"spec"`
	Status PeeringStatus `json:"status,omitempty"`
}

// PeeringSpec names the other cluster and the direction.
type PeeringSpec struct {
	// Cluster is the ID of the other cluster.
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`
	// Role is the role of the other cluster.
	// +kubebuilder:validation:Enum=Provider;Consumer
	Role PeeringRole `json:"role"`
}

// PeeringStatus is the progress of a peering.
type PeeringStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	State      PeeringState       `json:"state,omitempty"`
	// Step is what the peering waits for, in a word or two. Message says more.
	Step    string `json:"step,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when it entered its state.
	Since *metav1.Time `json:"since,omitempty"`
}

// PeeringName returns the name of the Peering with a cluster in a role.
func PeeringName(cluster string, role PeeringRole) string {
	if role == RoleProvider {
		return cluster + ".provider"
	}
	return cluster + ".consumer"
}
