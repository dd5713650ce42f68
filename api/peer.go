package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionTrusted of a Peer: its key is believed. Reasons: Confirmed (by the admin), Rotated (the key that the admin confirmed
// signed this one), Endorsed (by a root), FirstUse, Legacy (it has none, and the SharingPolicy takes the broker's word), and where it is not:
// KeyChanged, KeyUnconfirmed (the SharingPolicy demands more than a first use), NotMet.
const ConditionTrusted = "Trusted"

// ConditionSuspended of a Peer, of a Peering and, at the consumer, of a ReservationInstruction: the consumer gets nothing more, and what
// runs goes on. Reasons: Suspended (by the provider's admin, see PeerSpec), and at the consumer also Cordoned (its Tenant is, for
// another reason). Absent where it is not so.
const ConditionSuspended = "Suspended"

// ConditionLegacyAccounting of a Peer: its agent is of the prototypes. It counts a reservation, and once more the pods that use it, so
// that it offers less than it has; and only people can peer with it. Absent where it is not so.
const ConditionLegacyAccounting = "LegacyAccounting"

// Peer is another cluster as this one knows it, by its cluster ID: which key was pinned, and whether an admin confirmed
// it. The agent makes one, with an empty spec, of each cluster that it meets; an admin may make it before, in Git.
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

// PeerSpec is what the admin says of the cluster.
type PeerSpec struct {
	// Fingerprint is that of the cluster's key, as `bourse status` says it there and its admin told you on a way that
	// is not the broker's. Nothing is agreed with the cluster by another key, unless that key signed it as its successor.
	// Empty: the first key seen is pinned.
	// +kubebuilder:validation:Pattern=`^(SHA256:[A-Za-z0-9_-]{43})?$`
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// Suspend takes the cluster's growth here away without ending anything, as `bourse suspend` does: reservations of this
	// cluster's capacity, larger sizes and later ends are refused, and Liqo lets no new pods of it in; what runs goes on, and
	// what ends, ends. A peering made by hand is left alone. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// SuspendReason is told to the cluster with it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	SuspendReason string `json:"suspendReason,omitempty"`
}

// PeerStatus is what the agent knows of it.
type PeerStatus struct {
	// Fingerprint is that of the pinned key.
	Fingerprint string `json:"fingerprint,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// PeerList is a list of peers.
type PeerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Peer `json:"items"`
}
