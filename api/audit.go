package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Audit is all that another cluster can do in this one, as `bourse audit` shows it, and what runs here for it.
type Audit struct {
	Cluster string `json:"cluster"`
	// Fingerprint is that of its pinned key.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Reservations are what it has reserved here and is not over, by ID.
	Reservations map[string]Resources `json:"reservations,omitempty"`
	// Bindings give its users rights: "ClusterRoleBinding NAME -> ROLE", "RoleBinding NAMESPACE/NAME -> ROLE".
	Bindings []string `json:"bindings,omitempty"`
	// Certificates let it in at the API server.
	Certificates []AuditCertificate `json:"certificates,omitempty"`
	// Quotas are what Liqo lets its pods take, by the user that makes them.
	Quotas map[string]Resources `json:"quotas,omitempty"`
	// Network are the addresses by which its pods and those here reach each other, through Liqo's network, as far as
	// NetworkPolicies let them.
	Network []string `json:"network,omitempty"`
	// Namespaces are those that Liqo made for it, with what runs there; all of it goes when it is evicted.
	Namespaces []AuditNamespace `json:"namespaces,omitempty"`
}

// AuditCertificate is a certificate that this cluster's Liqo has issued.
type AuditCertificate struct {
	User  string      `json:"user"`
	Until metav1.Time `json:"until"`
}

// AuditNamespace is a namespace of another cluster's.
type AuditNamespace struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Volumes are its PersistentVolumeClaims: their data goes with them.
	Volumes []string `json:"volumes,omitempty"`
}

// Eviction is what an eviction ends.
type Eviction struct {
	// Reservations are the IDs of what is ending now.
	Reservations []string `json:"reservations"`
}
