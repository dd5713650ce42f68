package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Session lets a user ask this cluster's agent about one namespace. The right to create a Session in a namespace is the
// right to ask what concerns that namespace. The user makes a key pair and creates a Session with the digest of the
// public key. The agent answers in the status with the digest of its own key, and with its address. User and agent
// then speak TLS 1.3, and each accepts the other's key alone. The agent deletes a Session that has expired.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Session struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SessionSpec   `json:"spec"`
	Status            SessionStatus `json:"status,omitempty"`
}

// ClusterSession lets a user ask this cluster's agent about the whole cluster. All else is as with a Session.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSession struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SessionSpec   `json:"spec"`
	Status            SessionStatus `json:"status,omitempty"`
}

// SessionsHeader is the header of an answer that has the number of sessions for which it was given.
const SessionsHeader = "Bourse-Sessions"

// SessionSpec names the user's key.
type SessionSpec struct {
	// Key is the SHA-256 of the user's public key, as a SubjectPublicKeyInfo in DER (RFC 5280, 4.1), in 64
	// lower-case hexadecimal digits. It cannot change: create another session.
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the key of a session cannot change: create another session"
	Key string `json:"key"`
}

// SessionStatus is the agent's answer.
type SessionStatus struct {
	// ServerKey is the SHA-256 of the agent's public key, in the form of spec.key. Absent: the agent does not serve
	// the session, or not yet.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ServerKey string `json:"serverKey,omitempty"`
	// Address is where the agent answers: by port-forward at pod:NAME:PORT in namespace bourse or at
	// pod:NAMESPACE/NAME:PORT; else at 127.0.0.1:PORT or unix:PATH.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Address string `json:"address,omitempty"`
	// Expires is when the agent stops serving the session.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// Message says why the agent does not serve the session, with the remedy. Absent: it serves it, or has not seen it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
