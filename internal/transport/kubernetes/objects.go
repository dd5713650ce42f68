package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Group is the API group of the two kinds: that of the prototypes, whose agents look there.
const Group = "broker.fluidos.eu"

// The two kinds.
var (
	GroupVersion   = schema.GroupVersion{Group: Group, Version: "v1alpha1"}
	Advertisements = GroupVersion.WithKind("ClusterAdvertisement")
	Reservations   = GroupVersion.WithKind("Reservation")
)

const (
	// ClusterLabel, on a namespace of the broker's cluster, is the ID of the member that it is bound to.
	ClusterLabel = "bourse.dev/cluster"
	// Account is the name of the member's ServiceAccount in its namespace, of its RoleBinding, and of the
	// ClusterRole with its rights: to read both kinds and write its ClusterAdvertisement.
	Account = "bourse-member"
)

const (
	// MaxCalls bounds the active calls of a member, MaxBody the bytes of the body of one, and MaxPiece those
	// of a piece of an answer. They keep an object well below etcd's limit.
	MaxCalls = 16
	MaxBody  = 256 << 10
	MaxPiece = 32 << 10
)

// Namespace returns the namespace of a member's objects in the broker's cluster.
func Namespace(cluster string) string {
	const prefix, longest = "bourse-member-", 63
	name := prefix + cluster
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(cluster))
	return name[:longest-9] + "-" + hex.EncodeToString(sum[:4])
}

// AdvertisementName returns the name of a member's ClusterAdvertisement, as the prototypes' agents form it.
func AdvertisementName(cluster string) string { return cluster + "-adv" }

// Spec is the part of a ClusterAdvertisement that the member writes.
type Spec struct {
	ClusterID string `json:"clusterID"`
	// Calls are the active calls, by an ID that is used once.
	Calls map[string]Call `json:"calls,omitempty"`

	// The following fields are written by agents of the prototypes, instead of calls.

	ClusterName string          `json:"clusterName,omitempty"`
	Resources   json.RawMessage `json:"resources,omitempty"`
	Cost        json.RawMessage `json:"cost,omitempty"`
	Timestamp   string          `json:"timestamp,omitempty"`
}

// Call is one call to the REST API.
type Call struct {
	// Method and Path are those of REST; Path may have a query.
	Method string `json:"method"`
	Path   string `json:"path"`
	// Key is the idempotency key, if the call has one.
	Key string `json:"key,omitempty"`
	// Body is JSON.
	Body string `json:"body,omitempty"`
	// Read is the number of bytes of the answer that were read; the broker drops those.
	Read int64 `json:"read,omitempty"`
}

// Status is the part of a ClusterAdvertisement that the broker writes.
type Status struct {
	// Answers are the answers to the calls, by the same ID.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Member is the membership state of the cluster; empty: unknown.
	Member api.MemberState `json:"member,omitempty"`
	// Cluster is the broker's record of the cluster.
	Cluster *api.Cluster `json:"cluster,omitempty"`

	// The following fields use the prototypes' terms.

	// Phase is Active or Stale; Active is the same as a boolean.
	Phase  string `json:"phase,omitempty"`
	Active bool   `json:"active"`
	// Message names an error in the spec, or a step that the operator must take.
	Message string `json:"message,omitempty"`
	// Observed is the timestamp of the last accepted advertisement of a prototype's agent.
	Observed string `json:"observed,omitempty"`
}

// Answer is a piece of the answer to a call.
type Answer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Date is the broker's time at the start of the answer.
	Date metav1.Time `json:"date,omitzero"`
	// From is the number of bytes of the answer before Body.
	From int64  `json:"from,omitempty"`
	Body string `json:"body,omitempty"`
	// Done: this is the end of the answer.
	Done bool `json:"done,omitempty"`
	// Lost: the rest is lost, because another broker has taken over. Repeat the call.
	Lost bool `json:"lost,omitempty"`
}

// Object returns an empty object of one of the two kinds.
func Object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// List returns an empty list of one of the two kinds.
func List(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return u
}

// Mapper knows the kinds in the broker's cluster, so that no client needs to ask the cluster for them.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion,
		rbacv1.SchemeGroupVersion, GroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Advertisements, Reservations,
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}

// Part reads the spec or the status of an object; it keeps absent fields.
func Part(u *unstructured.Unstructured, part string, into any) error {
	content, ok := u.Object[part]
	if !ok {
		return nil
	}
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return payload.Unmarshal(data, into)
}
