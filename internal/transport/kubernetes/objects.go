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
)

// Group is the API group of the two kinds: that of the prototypes, whose agents find them there.
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
	// Account is the name of the member's ServiceAccount in its namespace, of the RoleBinding, and of the ClusterRole that
	// says what it may: read both kinds, and write its ClusterAdvertisement.
	Account = "bourse-member"
)

const (
	// MaxCalls is how many calls of a member may be under way at a time, MaxBody how long the body of one may be and MaxPiece
	// a piece of an answer, in bytes. With them an object stays well below what etcd takes.
	MaxCalls = 16
	MaxBody  = 256 << 10
	MaxPiece = 32 << 10
)

// Namespace is where a member's objects are in the broker's cluster.
func Namespace(cluster string) string {
	const prefix, longest = "bourse-member-", 63
	name := prefix + cluster
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(cluster))
	return name[:longest-9] + "-" + hex.EncodeToString(sum[:4])
}

// AdvertisementName is the name of a member's ClusterAdvertisement, as the prototypes' agents call it.
func AdvertisementName(cluster string) string { return cluster + "-adv" }

// Spec is what a member writes in its ClusterAdvertisement.
type Spec struct {
	ClusterID string `json:"clusterID"`
	// Calls are those under way, by an ID that is used once.
	Calls map[string]Call `json:"calls,omitempty"`

	// What follows agents of the prototypes write, instead of calls.

	ClusterName string          `json:"clusterName,omitempty"`
	Resources   json.RawMessage `json:"resources,omitempty"`
	Cost        json.RawMessage `json:"cost,omitempty"`
	Timestamp   string          `json:"timestamp,omitempty"`
}

// Call is one call of the REST API.
type Call struct {
	// Method and Path are those of REST; Path may have a query.
	Method string `json:"method"`
	Path   string `json:"path"`
	// Key is the idempotency key, if the call has one.
	Key string `json:"key,omitempty"`
	// Body is JSON.
	Body string `json:"body,omitempty"`
	// Read is how many bytes of the answer were read; the broker forgets those.
	Read int64 `json:"read,omitempty"`
}

// Status is what the broker writes in a ClusterAdvertisement.
type Status struct {
	// Answers are those to the calls, by the same ID.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Member is how far the cluster is a member; empty: nobody knows it yet.
	Member api.MemberState `json:"member,omitempty"`
	// Cluster is what the broker shows of it.
	Cluster *api.Cluster `json:"cluster,omitempty"`

	// What follows is in the prototypes' words.

	// Phase is Active or Stale, and Active the same.
	Phase  string `json:"phase,omitempty"`
	Active bool   `json:"active"`
	// Message says what is wrong with what was written, or what the operator has to do.
	Message string `json:"message,omitempty"`
	// Observed is the timestamp of the advertisement of a prototype's agent that was taken in last.
	Observed string `json:"observed,omitempty"`
}

// Answer is a piece of the answer to a call.
type Answer struct {
	// Status is that of HTTP.
	Status int `json:"status"`
	// Date is the broker's time when the answer began.
	Date metav1.Time `json:"date,omitzero"`
	// From is how many bytes of the answer come before Body.
	From int64  `json:"from,omitempty"`
	Body string `json:"body,omitempty"`
	// Done says that nothing follows.
	Done bool `json:"done,omitempty"`
	// Lost says that what follows got lost, because another broker than the one that answered goes on: call again.
	Lost bool `json:"lost,omitempty"`
}

// Object is a blank object of one of the two kinds.
func Object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// List is a blank list of one of the two kinds.
func List(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return u
}

// Mapper knows the kinds that members have in the broker's cluster, so that nobody has to ask the cluster for them.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, GroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Advertisements, Reservations,
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}

// Part reads the spec or the status of an object; what is absent is left as it is.
func Part(u *unstructured.Unstructured, part string, into any) error {
	content, ok := u.Object[part]
	if !ok {
		return nil
	}
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
