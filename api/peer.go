package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionTrusted of a Peer: the agent trusts its key. Reasons: Confirmed (by the admin), Rotated
// (signed by the key that the admin confirmed), Endorsed (by a root), FirstUse, Legacy (it has no
// key, and the SharingPolicy accepts the broker's word). Reasons if it is not: KeyChanged,
// KeyUnconfirmed (the SharingPolicy requires more than a first use), NotMet.
const ConditionTrusted = "Trusted"

// ConditionSuspended of a Peer, of a Peering and, at the consumer, of a ReservationInstruction: the
// consumer gets nothing more, and running pods stay. Reasons: Suspended (by the provider's admin,
// see PeerSpec), and at the consumer also Cordoned (its Tenant is, for another reason). Absent
// otherwise.
const ConditionSuspended = "Suspended"

// ConditionLegacyAccounting of a Peer: its agent is a prototype. It counts a reservation and also
// the pods that use it, so the cluster offers less than it has. An admin peers with it by hand.
// Absent otherwise.
const ConditionLegacyAccounting = "LegacyAccounting"

// ConditionEvicted of a Peer: what the agent did about the last annotation bourse.dev/evict. Reasons: Evicted (the
// reservations of the cluster here end); if nothing was changed: ChangedSince (it has another digest than
// status.lent), Invalid (it has no digest). Absent: there was no such annotation.
const ConditionEvicted = "Evicted"

// Peer is another cluster as this one knows it, by its cluster ID: the pinned key, and whether an
// admin confirmed it. The agent creates one, with an empty spec, for each cluster that it meets. An
// admin may create it before, with GitOps.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:printcolumn:name="Fingerprint",type=string,JSONPath=`.status.fingerprint`
// +kubebuilder:printcolumn:name="Trusted",type=string,JSONPath=`.status.conditions[?(@.type=='Trusted')].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Trusted')].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Peer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PeerSpec   `json:"spec,omitempty"`
	Status            PeerStatus `json:"status,omitempty"`
}

// PeerSpec is an admin's configuration of the other cluster.
type PeerSpec struct {
	// Fingerprint is that of the cluster's key. Get it from the cluster's admin (`bourse status`),
	// over another channel than the broker. The agent agrees nothing with the cluster under another
	// key, unless this key signed it as its successor. Empty: the first key is pinned.
	// +kubebuilder:validation:Pattern=`^(SHA256:[A-Za-z0-9_-]{43})?$`
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// Address is that of the cluster's connector, HOST:PORT. The agent calls it there, without a
	// broker, once a key is pinned or a fingerprint named. Default: the address on its card.
	// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4})?$`
	// +optional
	Address string `json:"address,omitempty"`
	// Suspend lends the cluster nothing more, without ending anything, like `bourse suspend`. This
	// cluster refuses its new reservations, larger sizes and later ends, and Liqo admits none of
	// its new pods. Running pods stay, and reservations end at their time. Hand-made peerings are
	// not affected. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// SuspendReason is sent to the suspended cluster.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	SuspendReason string `json:"suspendReason,omitempty"`
	// ShareReservations lets the namespaces of this cluster share what their requests reserve at the
	// cluster. Default false: each uses what its own requests reserved, and what others reserved for
	// it. Its pods beyond that are evicted, those of low priority first, then the youngest.
	// +optional
	ShareReservations bool `json:"shareReservations,omitempty"`
}

// PeerStatus is what the agent knows of the other cluster.
type PeerStatus struct {
	// Fingerprint is that of the pinned key.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Lent is what the cluster has reserved here. Absent: nothing.
	Lent *LentToPeer `json:"lent,omitempty"`
	// Answered are the values of annotations that were answered, by the name of the annotation after "bourse.dev/":
	// evict. The agent acts on no value twice.
	// +kubebuilder:validation:MaxProperties=8
	Answered map[string]string `json:"answered,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LentToPeer is what a cluster has reserved here, with what is ending. Each is a ProviderInstruction.
type LentToPeer struct {
	// Reservations is how many there are.
	Reservations int64 `json:"reservations"`
	// Digest stands for the Peer object and the IDs of the reservations. The annotation bourse.dev/evict names it, so
	// that it ends no other one. Suspend the cluster first: else it can change the digest by one reservation more.
	Digest string `json:"digest"`
}
