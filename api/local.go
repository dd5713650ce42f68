package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentStatus is the state of an agent.
type AgentStatus struct {
	Cluster string `json:"cluster"`
	// Fingerprint is that of this cluster's key, for operators and peers to compare.
	Fingerprint string `json:"fingerprint"`
	// Broker is its URL. Connected says that the watch is open, Problem why it is not.
	Broker    string      `json:"broker"`
	Connected bool        `json:"connected"`
	LastHeard metav1.Time `json:"lastHeard,omitzero"`
	Problem   string      `json:"problem,omitempty"`
	// Sharing says that a SharingPolicy is in force.
	Sharing bool `json:"sharing"`
}

// KeyRotation is the body with which an admin gives a cluster a new key.
type KeyRotation struct {
	// From is the fingerprint of the key to replace. So a repeated call changes nothing.
	From string `json:"from" maxLength:"64"`
}

// KeyRotated is the answer. The agent restarts with the new key.
type KeyRotated struct {
	// Fingerprint is that of the new key.
	Fingerprint string `json:"fingerprint"`
}

// RequestCreate is the body with which an agent creates a ResourceRequest.
type RequestCreate struct {
	// Namespace is the namespace of the object. Default "default".
	Namespace string `json:"namespace,omitempty" maxLength:"63"`
	// Name is the name of the object. Empty: the agent generates one.
	Name    string   `json:"name,omitempty" maxLength:"253"`
	Request Request  `json:"request"`
	Offload *Offload `json:"offload,omitempty"`
	// Broker names the broker to ask. Default: the first that is enabled and answers.
	Broker string `json:"broker,omitempty" maxLength:"63"`
	// Via says where a purchase is made. Default: Broker.
	Via Via `json:"via,omitempty" enum:"Auto,Direct,Broker"`
}

// DryRun is the body that asks what a ResourceRequest would get.
type DryRun struct {
	RequestCreate
	Fitting
}

// Impact is what would end with a ResourceRequest if it were released now.
type Impact struct {
	// Volumes are those that providers would delete; nil: none. Its Claims are those that the caller may see.
	Volumes *Volumes `json:"volumes,omitempty"`
	// Pods are those on the virtual nodes of its reservations; nil: none.
	Pods *Pods `json:"pods,omitempty"`
}

// Pods are pods on virtual nodes. Other requests may keep some of them running: those of a provider share a virtual node.
type Pods struct {
	// Count is the number of all of them.
	Count int `json:"count"`
	// Names names, as NAMESPACE/NAME, the first 20 of those that the caller may see.
	Names []string `json:"names"`
}

// String names the first of the pods.
func (p *Pods) String() string { return listed(p.Count, "pod", p.Names) }

// SharingPreview is what a SharingPolicy would change if it were in force now.
type SharingPreview struct {
	// Pools are those of the policy in force and of the other one, by name.
	Pools map[string]SharingChange `json:"pools"`
	// LoseSight are the clusters that see this one now and would not, GainSight those that would see it. What they
	// have reserved stays in either case. Unread says why they are not known: no broker answers. Empty: they are.
	LoseSight []string `json:"loseSight"`
	GainSight []string `json:"gainSight"`
	Unread    string   `json:"unread,omitempty"`
	// Holders are those of LoseSight that have reservations here.
	Holders []string `json:"holders"`
}

// SharingChange is what a pool shows now, and what it would show. Of both, only what is shared, reserved and available
// is there. Absent: the pool is not shared.
type SharingChange struct {
	Now  *Amounts `json:"now,omitempty"`
	Then *Amounts `json:"then,omitempty"`
}

// RequestStatus is a ResourceRequest as an agent's listener shows it; its ID is "namespace/name".
type RequestStatus struct {
	Request Request               `json:"request"`
	Offload *Offload              `json:"offload,omitempty"`
	Status  ResourceRequestStatus `json:"status"`
	// Created is when the ResourceRequest was made.
	Created metav1.Time `json:"created,omitzero"`
	// Steps are the conditions of its ReservationInstruction: the progress from Reserved to running
	// pods. Only a read of one request has them.
	Steps []metav1.Condition `json:"steps,omitempty"`
}

// ReservationChange is the body with which an agent edits the ResourceRequest behind a reservation.
type ReservationChange struct {
	// Units is the new number of units of its plan. 0: no change.
	Units int64 `json:"units,omitempty" minimum:"0" maximum:"1000000"`
	// Resources replace those of the same name. 0 removes one. The others stay.
	Resources Resources `json:"resources,omitempty"`
	// For is the new remaining time, counted from now. Empty: no change.
	For *metav1.Duration `json:"for,omitempty"`
	// Withdraw makes the request say again what its reservation is, after a provider refused a
	// change. It goes with no other field.
	Withdraw bool `json:"withdraw,omitempty"`
}

// Suspension is the body with which a provider's admin suspends a consumer.
type Suspension struct {
	// Reason is sent to the consumer.
	Reason string `json:"reason,omitempty" maxLength:"256"`
}

// Approval is a request that waits for an admin's approval. Its ID is that of the reservation.
type Approval struct {
	Consumer   string    `json:"consumer"`
	Generation int64     `json:"generation"`
	Resources  Resources `json:"resources"`
	Pool       string    `json:"pool"`
	// Offer and Plan are names, Units the number of units. Empty: the request is for no offer.
	Offer string `json:"offer,omitempty"`
	Plan  string `json:"plan,omitempty"`
	Units int64  `json:"units,omitempty"`
	// Asked is when the request came, By until when it waits, Until when the reservation is to end.
	Asked metav1.Time `json:"asked"`
	By    metav1.Time `json:"by"`
	Until metav1.Time `json:"until"`
	// Price is that of a unit ("0.08 EUR/hour"). Empty: the request is for no offer.
	Price string `json:"price,omitempty"`
	// Digest stands for what waits: an answer that names it is to nothing else. Empty at the agent's own listener.
	Digest string `json:"digest,omitempty"`
}

// Answer is an admin's answer to a request that waits for approval.
type Answer struct {
	Approve bool `json:"approve"`
	// Generation is that of the request that the admin saw. 0: the one that waits now.
	Generation int64 `json:"generation,omitempty"`
	// Reason is what the consumer reads after a refusal.
	Reason string `json:"reason,omitempty" maxLength:"512"`
}

// KnownPeer is a Peer as an agent's listener shows it; its ID is the cluster's.
type KnownPeer struct {
	Spec   PeerSpec   `json:"spec"`
	Status PeerStatus `json:"status"`
}

// ProposalCreate proposes other terms to a seller.
//
// +kubebuilder:object:generate=false
type ProposalCreate struct {
	Seller string `json:"seller" maxLength:"63"`
	Offer  string `json:"offer" maxLength:"63"`
	Plan   string `json:"plan" maxLength:"63"`
	ProposalTerms
	// Within is for how long the proposal stands: one minute to a week. Default 72 h.
	Within *metav1.Duration `json:"within,omitempty"`
}

// KnownProposal is a proposal that this cluster made or received; its ID is the proposal's.
//
// +kubebuilder:object:generate=false
type KnownProposal struct {
	Proposal SignedProposal `json:"proposal"`
	// Document is the proposal as its buyer signed it, and Digest is that of the document.
	Document string `json:"document"`
	Digest   string `json:"digest,omitempty"`
	// Answer is the name of the offer with which the seller answered. Empty: it has not.
	Answer string `json:"answer,omitempty"`
	// Countered says that this offer has other terms than were proposed.
	Countered bool `json:"countered,omitempty"`
	// Declined says that the seller makes no offer. Reason is why, as it says.
	Declined bool   `json:"declined,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// ProposalAnswer answers a proposal: by an offer with the proposed terms, or with those that are named.
//
// +kubebuilder:object:generate=false
type ProposalAnswer struct {
	ProposalTerms
	// Digest is that of the proposal as you saw it. If the proposal is another one, nothing changes. Empty: the
	// ID is enough.
	Digest string `json:"digest,omitempty" maxLength:"128"`
	// Decline makes no offer, and takes back the one that was made. Message is why; the buyer reads it.
	Decline bool `json:"decline,omitempty"`
}
