package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MainBroker names the broker that the agent was started with (--join): it is there without a Broker object, which may disable it.
const MainBroker = "main"

// ConditionConnected of a Broker: its watch is open. Reasons where it is not: Disabled, Joining, NotJoined, Unavailable or the code of
// what it answered.
const ConditionConnected = "Connected"

// Broker is a broker that this cluster deals with besides the one that its agent was started with, in the agent's namespace. It is
// never dropped because it is away: people disable it, and delete it. What was agreed through it stays as it is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="the name of a broker has at most 63 of a-z, 0-9 and -"
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Broker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BrokerSpec   `json:"spec,omitempty"`
	Status            BrokerStatus `json:"status,omitempty"`
}

// BrokerSpec is what people say of a broker.
type BrokerSpec struct {
	// Join is a token of the broker's operator. It is used once, and may be taken out then: whoever reads it before can join in this
	// cluster's name. Not for the broker "main".
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Join string `json:"join,omitempty"`
	// URL is where the broker is, https://HOST:PORT. Default: as the token says. Not for the broker "main".
	// +kubebuilder:validation:MaxLength=512
	// +optional
	URL string `json:"url,omitempty"`
	// Disabled stops all that this cluster says to the broker and hears of it, as if it were away; what is reserved through it goes on.
	// Default false.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// BrokerStatus is how a broker stands.
type BrokerStatus struct {
	// URL is where it is reached.
	URL string `json:"url,omitempty"`
	// Conditions: Connected.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// BrokerList is a list of brokers.
type BrokerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Broker `json:"items"`
}

// KnownBroker is a broker as an agent's listener shows it; its ID is its name. The token is not shown.
type KnownBroker struct {
	Spec   BrokerSpec   `json:"spec"`
	Status BrokerStatus `json:"status"`
	// LastHeard is when it was last heard; absent: not since the agent started.
	LastHeard metav1.Time `json:"lastHeard,omitzero"`
	// Reservations is how many that count were made through it.
	Reservations int `json:"reservations"`
}
