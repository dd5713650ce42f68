package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberState is the state of a membership.
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
	// Fingerprint is that of its cluster key. Before you approve, compare it with what the
	// cluster's admin reads in `bourse agent fingerprint`.
	Fingerprint string `json:"fingerprint"`
	// Source is the address it joined from.
	Source  string      `json:"source,omitempty"`
	Joined  metav1.Time `json:"joined"`
	Changed metav1.Time `json:"changed,omitzero"`
	// Fresh says that its lease is alive.
	Fresh bool `json:"fresh"`
	// Software is the program and version that its last call named, such as bourse/v0.1.0. It is empty until the first
	// call after a start of the broker. The member writes it.
	Software string `json:"software,omitempty"`
	// Legacy says that its agent is a prototype. The broker signs in its name, with a key that it
	// derives for the cluster.
	Legacy bool `json:"legacy,omitempty"`
	// Caps are this member's own bounds, if an operator set them.
	Caps *Caps `json:"caps,omitempty"`
}

// Caps are bounds for what one consumer has pending, held and reserved together.
type Caps struct {
	// Reservations is the number of reservations. Absent or 0: the bound for every member.
	Reservations int64 `json:"reservations,omitempty" minimum:"0"`
	// Pending is how many of them may wait for capacity at the same time. Absent or 0: the bound
	// for every member.
	Pending int64 `json:"pending,omitempty" minimum:"0"`
	// Priority is the highest priority of its requests. Absent or 0: the bound for every member.
	Priority int32 `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	// Resources are the amounts. For a resource that is not named, the bound for every member holds.
	Resources Resources `json:"resources,omitempty"`
}

// ConditionMember of a Peering and of a Peer: the broker says that the cluster is a member. No
// cluster signs that. The reason is the state: Active, or if it is not True Suspended, Revoked,
// Removed, or Pending after it joined again.
const ConditionMember = "Member"

// Membership says whether a cluster is a member, or was: Pending, Active, Suspended and so on. The broker sends it
// to clusters that have reservations with that cluster.
//
// +kubebuilder:object:generate=false
type Membership struct {
	Cluster string      `json:"cluster"`
	State   MemberState `json:"state"`
}

// Token is a join token in the operator's list. It never contains the secret.
type Token struct {
	// Cluster, if set, is the only cluster that may use the token. It then needs no approval.
	Cluster string      `json:"cluster,omitempty"`
	Expires metav1.Time `json:"expires"`
	// UsedBy is the cluster that used it.
	UsedBy string `json:"usedBy,omitempty"`
}

// BrokerState is the state of a broker, for its operators.
type BrokerState struct {
	// URL is the one that join tokens hold. Since is when this process began to serve.
	URL      string      `json:"url"`
	Since    metav1.Time `json:"since"`
	Protocol int         `json:"protocol"`
	// Lineage and Revision are the journal's.
	Lineage  string `json:"lineage"`
	Revision uint64 `json:"revision"`
	// Members and Reservations are counts by state, without reservations that have ended. Tokens
	// counts join tokens.
	Members      map[MemberState]int `json:"members"`
	Reservations map[State]int       `json:"reservations"`
	Tokens       int                 `json:"tokens"`
}

// TokenCreate is the body that creates a join token.
type TokenCreate struct {
	Cluster string          `json:"cluster,omitempty" maxLength:"63"`
	TTL     metav1.Duration `json:"ttl,omitempty"`
}

// TokenCreated is the answer. The token is shown only this once.
type TokenCreated struct {
	// ID names the token in lists. It is no secret.
	ID      string      `json:"id"`
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

// OperatorCertificateCreate is the body that ends operators' certificates and creates a new one.
type OperatorCertificateCreate struct {
	// CSR is a certificate request (DER, base64 in JSON), signed by the new operator's key. Empty:
	// no certificate is created.
	CSR []byte `json:"csr,omitempty" maxLength:"8192"`
	// Name is the operator's name in the broker's log, a DNS label. Default: admin.
	Name string `json:"name,omitempty" maxLength:"63"`
}

// OperatorCertificateCreated says which operators' certificates are valid from now on.
type OperatorCertificateCreated struct {
	// From is a time: all operators' certificates that were issued before it have ended.
	From metav1.Time `json:"from"`
	// Certificate and CA are PEM. They are empty if no certificate was requested.
	Certificate string `json:"certificate,omitempty"`
	CA          string `json:"ca,omitempty"`
}

// CertificateCreate is the body with which an operator signs the certificate of a cluster whose
// agent is a prototype.
type CertificateCreate struct {
	// Request is a certificate request (PEM), signed by the agent's own key. The broker ignores the
	// names in it.
	Request string `json:"request" maxLength:"16384"`
	// Duration is how long the certificate is valid, up to 8760h. Default 8760h.
	Duration metav1.Duration `json:"duration,omitempty"`
}

// CertificateCreated is the answer.
type CertificateCreated struct {
	// Certificate is the cluster's certificate, followed by the CA's. CA is the latter alone. Both are PEM.
	Certificate string      `json:"certificate"`
	CA          string      `json:"ca"`
	Expires     metav1.Time `json:"expires"`
}
