package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Audit lists everything that another cluster can do in this one, and what it runs here, as `bourse
// audit` shows it.
type Audit struct {
	Cluster string `json:"cluster"`
	// Fingerprint is that of the pinned key.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Reservations are its reservations here that have not ended, by ID.
	Reservations map[string]Resources `json:"reservations,omitempty"`
	// Digest stands for these reservations: an eviction that names it ends no others. Empty if there are none.
	Digest string `json:"digest,omitempty"`
	// Bindings give its users rights: "ClusterRoleBinding NAME -> ROLE", "RoleBinding
	// NAMESPACE/NAME -> ROLE".
	Bindings []string `json:"bindings,omitempty"`
	// Certificates let it in at the API server.
	Certificates []AuditCertificate `json:"certificates,omitempty"`
	// Quotas are what Liqo allows its pods, by the user that creates them.
	Quotas map[string]Resources `json:"quotas,omitempty"`
	// Network are the addresses under which its pods and the pods here reach each other through
	// Liqo's network, as far as NetworkPolicies allow.
	Network []string `json:"network,omitempty"`
	// Namespaces are those that Liqo made for it, with what runs there. An eviction removes all of it.
	Namespaces []AuditNamespace `json:"namespaces,omitempty"`
}

// AuditCertificate is a certificate that this cluster's Liqo has issued.
type AuditCertificate struct {
	User  string      `json:"user"`
	Until metav1.Time `json:"until"`
}

// AuditNamespace is a namespace of another cluster.
type AuditNamespace struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Volumes are its PersistentVolumeClaims. Their data is deleted with them.
	Volumes []string `json:"volumes,omitempty"`
}

// Eviction is the answer to an eviction.
type Eviction struct {
	// Reservations are the IDs of the reservations that are ending now.
	Reservations []string `json:"reservations"`
}
