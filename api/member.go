package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberState is how far a cluster is a member.
type MemberState string

const (
	MemberPending   MemberState = "Pending"   // asked to join; waits for an operator
	MemberActive    MemberState = "Active"    // admitted
	MemberSuspended MemberState = "Suspended" // for a while: no new reservations, not shown
	MemberRevoked   MemberState = "Revoked"   // for good: its certificate is refused
	MemberRemoved   MemberState = "Removed"   // gone: its books are closed
)

// Member is a cluster that asked to join, as its operator sees it.
type Member struct {
	State MemberState `json:"state"`
	// Fingerprint is of its cluster key: compare it with what the cluster's admin reads in
	// `bourse agent fingerprint` before you approve.
	Fingerprint string `json:"fingerprint"`
	// Source is the address it joined from.
	Source  string      `json:"source,omitempty"`
	Joined  metav1.Time `json:"joined"`
	Changed metav1.Time `json:"changed,omitzero"`
	// Fresh says that its lease is alive.
	Fresh bool `json:"fresh"`
	// Legacy says that its agent is of the prototypes: the broker signs in its name, by a key that it derives for it.
	Legacy bool `json:"legacy,omitempty"`
	// Caps are what it may have, where an operator said something of this member.
	Caps *Caps `json:"caps,omitempty"`
}

// Caps are the most that one consumer may have pending, held and reserved together.
type Caps struct {
	// Reservations is how many. Left out, or 0: as many as every member may have.
	Reservations int64 `json:"reservations,omitempty" minimum:"0"`
	// Pending is how many of them may wait for capacity at a time. Left out, or 0: as many as of every member.
	Pending int64 `json:"pending,omitempty" minimum:"0"`
	// Priority is the highest that its requests may have. Left out, or 0: what those of every member may.
	Priority int32 `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	// Resources are how much. A resource that is not named: as much as every member may have.
	Resources Resources `json:"resources,omitempty"`
}

// ConditionMember of a Peering and of a Peer: the broker says that the cluster is a member. It is the broker's word alone: no cluster signs it.
// The reason is the state: Active, or where it is not True Suspended, Revoked, Removed, or Pending after it joined anew.
const ConditionMember = "Member"

// Standing is how far a cluster is a member, as its broker tells those who have reservations with it.
//
// +kubebuilder:object:generate=false
type Standing struct {
	Cluster string      `json:"cluster"`
	State   MemberState `json:"state"`
}

// Token is a join token as the operator lists it: never its secret.
type Token struct {
	// Cluster, if set, is the only cluster that may use it, and is approved by using it.
	Cluster string      `json:"cluster,omitempty"`
	Expires metav1.Time `json:"expires"`
	// UsedBy is the cluster that used it.
	UsedBy string `json:"usedBy,omitempty"`
}

// TokenCreate is the body that makes a join token.
type TokenCreate struct {
	Cluster string          `json:"cluster,omitempty" maxLength:"63"`
	TTL     metav1.Duration `json:"ttl,omitempty"`
}

// TokenCreated is the answer: the one time that the token is shown.
type TokenCreated struct {
	Token   string      `json:"token"`
	Expires metav1.Time `json:"expires"`
}

// Joined is the answer to a request to join and to a renewal.
type Joined struct {
	// Certificate and CA are PEM.
	Certificate string      `json:"certificate"`
	CA          string      `json:"ca"`
	State       MemberState `json:"state"`
}

// OperatorCertificateCreate is the body by which operators' certificates end, and a new one is made.
type OperatorCertificateCreate struct {
	// CSR is a certificate request (DER, base64 in JSON), signed by the new operator's key. Empty: none is made.
	CSR []byte `json:"csr,omitempty" maxLength:"8192"`
	// Name is the operator's, a DNS label, which the broker's log shows. Default: admin.
	Name string `json:"name,omitempty" maxLength:"63"`
}

// OperatorCertificateCreated says which operators' certificates are good from now on.
type OperatorCertificateCreated struct {
	// From ends all certificates of operators that were issued before.
	From metav1.Time `json:"from"`
	// Certificate and CA are PEM; empty where none was asked for.
	Certificate string `json:"certificate,omitempty"`
	CA          string `json:"ca,omitempty"`
}

// CertificateCreate is the body by which an operator makes the certificate of a cluster whose agent is of the prototypes.
type CertificateCreate struct {
	// Request is a certificate request (PEM), signed by the agent's own key. The names that it asks for are ignored.
	Request string `json:"request" maxLength:"16384"`
	// Duration is how long the certificate lives, up to 8760h. Default 8760h.
	Duration metav1.Duration `json:"duration,omitempty"`
}

// CertificateCreated is the answer.
type CertificateCreated struct {
	// Certificate is the cluster's, followed by the CA's; CA is the latter alone. Both are PEM.
	Certificate string      `json:"certificate"`
	CA          string      `json:"ca"`
	Expires     metav1.Time `json:"expires"`
}
