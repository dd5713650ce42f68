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
}

// RequestStatus is a ResourceRequest as an agent's listener shows it; its ID is "namespace/name".
type RequestStatus struct {
	Request Request               `json:"request"`
	Offload *Offload              `json:"offload,omitempty"`
	Status  ResourceRequestStatus `json:"status"`
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

// KnownPeer is a Peer as an agent's listener shows it; its ID is the cluster's.
type KnownPeer struct {
	Spec   PeerSpec   `json:"spec"`
	Status PeerStatus `json:"status"`
}
