package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentStatus is how an agent stands.
type AgentStatus struct {
	Cluster string `json:"cluster"`
	// Fingerprint of this cluster's key: what operators and peers compare.
	Fingerprint string `json:"fingerprint"`
	// Broker is its URL; Connected says that the watch is open, Problem why it is not.
	Broker    string      `json:"broker"`
	Connected bool        `json:"connected"`
	LastHeard metav1.Time `json:"lastHeard,omitzero"`
	Problem   string      `json:"problem,omitempty"`
	// Sharing says that a SharingPolicy is in force.
	Sharing bool `json:"sharing"`
}

// KeyRotation is the body by which an admin gives a cluster a new key.
type KeyRotation struct {
	// From is the fingerprint of the key that is to be succeeded: so a repeat changes nothing.
	From string `json:"from" maxLength:"64"`
}

// KeyRotated is the answer: the agent starts again with the new key.
type KeyRotated struct {
	// Fingerprint is that of the new key.
	Fingerprint string `json:"fingerprint"`
}

// RequestCreate is the body by which an agent makes a ResourceRequest.
type RequestCreate struct {
	// Namespace it is made in. Default "default".
	Namespace string `json:"namespace,omitempty" maxLength:"63"`
	// Name of the object; empty: one is made up.
	Name    string   `json:"name,omitempty" maxLength:"253"`
	Request Request  `json:"request"`
	Offload *Offload `json:"offload,omitempty"`
	// Broker names the broker that is asked. Default: the first that is enabled and reached.
	Broker string `json:"broker,omitempty" maxLength:"63"`
}

// RequestStatus is a ResourceRequest as an agent's listener shows it; its ID is "namespace/name".
type RequestStatus struct {
	Request Request               `json:"request"`
	Offload *Offload              `json:"offload,omitempty"`
	Status  ResourceRequestStatus `json:"status"`
	// Steps are the conditions of its ReservationInstruction, where one request is read: how far what it got can be used.
	Steps []metav1.Condition `json:"steps,omitempty"`
}

// ReservationChange is the body by which an agent edits the ResourceRequest behind a reservation.
type ReservationChange struct {
	// Units is how many units of its plan it is to have; 0: as many as it has.
	Units int64 `json:"units,omitempty" minimum:"0" maximum:"1000000"`
	// Resources replace those of the same name; 0 takes one away. The others stay.
	Resources Resources `json:"resources,omitempty"`
	// For is how long it is to last from now. Empty: as before.
	For *metav1.Duration `json:"for,omitempty"`
}

// Suspension is the body by which a provider's admin suspends a consumer.
type Suspension struct {
	// Reason is told to the consumer.
	Reason string `json:"reason,omitempty" maxLength:"256"`
}

// Approval is what waits for a person of this cluster to approve it; its ID is the reservation's.
type Approval struct {
	Consumer   string    `json:"consumer"`
	Generation int64     `json:"generation"`
	Resources  Resources `json:"resources"`
	Pool       string    `json:"pool"`
	// Offer and Plan are names, Units how many of the plan; empty: it is from no offer.
	Offer string `json:"offer,omitempty"`
	Plan  string `json:"plan,omitempty"`
	Units int64  `json:"units,omitempty"`
	// Asked is when it came, By until when it waits, Until when it is to end.
	Asked metav1.Time `json:"asked"`
	By    metav1.Time `json:"by"`
	Until metav1.Time `json:"until"`
}

// Answer is a person's word on what waits for approval.
type Answer struct {
	Approve bool `json:"approve"`
	// Generation is that of what they saw. 0: whatever waits now.
	Generation int64 `json:"generation,omitempty"`
	// Reason is what the other side reads of a no.
	Reason string `json:"reason,omitempty" maxLength:"512"`
}

// KnownPeer is a Peer as an agent's listener shows it; its ID is the cluster's.
type KnownPeer struct {
	Spec   PeerSpec   `json:"spec"`
	Status PeerStatus `json:"status"`
}
