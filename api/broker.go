package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MainBroker names the broker that the agent was started with. The agent makes its Broker object, unless it
// was started without a broker; an admin can disable the broker there.
const MainBroker = "main"

// ConditionConnected of a Broker: its watch is open. Reasons if it is not: Disabled, Joining,
// NotJoined, WaitsForToken, JoinRefused, BrokerUnreachable, ClonedIdentity, Unavailable, or the code of the broker's
// answer.
const ConditionConnected = "Connected"

// The reasons of ConditionConnected of the main broker while the cluster has not joined it.
const (
	// ReasonWaitsForToken: there is no join token.
	ReasonWaitsForToken = "WaitsForToken"
	// ReasonJoinRefused: the token is malformed, or the broker refuses it.
	ReasonJoinRefused = "JoinRefused"
	// ReasonBrokerUnreachable: the broker of the token does not answer.
	ReasonBrokerUnreachable = "BrokerUnreachable"
	// ReasonClonedIdentity: the identity is another cluster's.
	ReasonClonedIdentity = "ClonedIdentity"
)

// Broker is a further broker of this cluster, in addition to the one that its agent was started
// with. It is in the agent's namespace. The agent never drops it because it is away: an admin
// disables or deletes it. Existing reservations stay.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="the name of a broker has at most 63 of a-z, 0-9 and -"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'main' || !has(self.spec) || !has(self.spec.join) && !has(self.spec.url)",message="main is the broker that the agent was started with: give another name, or start the agent with another --join or --broker-url"
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

// BrokerSpec is an admin's configuration of a broker.
type BrokerSpec struct {
	// Join is a token of the broker's operator. It is used once; remove it after that. Anyone who
	// reads it before can join in this cluster's name. Not for the broker "main".
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Join string `json:"join,omitempty"`
	// URL is the address of the broker, https://HOST:PORT. Default: the one in the token. Not for
	// the broker "main".
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https://[^/@?# ]+/?$')",message="it is not the URL of a broker: write https://HOST:PORT"
	// +optional
	URL string `json:"url,omitempty"`
	// Disabled stops all communication with the broker, as if it were away. Existing reservations
	// stay. Default false.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// BrokerStatus is the state of a broker.
type BrokerStatus struct {
	// URL is the address in use.
	URL string `json:"url,omitempty"`
	// Conditions: Connected.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KnownBroker is a broker as an agent's listener shows it. Its ID is its name. The token is not shown.
type KnownBroker struct {
	Spec   BrokerSpec   `json:"spec"`
	Status BrokerStatus `json:"status"`
	// LastHeard is when the broker last answered. Absent: not since the agent started.
	LastHeard metav1.Time `json:"lastHeard,omitzero"`
	// Reservations is how many counting reservations were made through it.
	Reservations int `json:"reservations"`
}
