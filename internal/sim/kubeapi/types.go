package kubeapi

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Type is a kind of object that a server holds.
type Type struct {
	GroupVersion schema.GroupVersion
	Kind         string // "Pod"
	Resource     string // "pods"
	Namespaced   bool
	Status       bool // has a /status of its own
	ShortNames   []string

	categories []string
	custom     *custom                                          // nil: every field may be there
	columns    []apiextensionsv1.CustomResourceColumnDefinition // of its tables, beside the name

	// What follows only built-in types have.

	aliases       map[string]string            // fields of core Events under other names: it is not stored itself
	fields        []string                     // selectable, beside metadata.name and .namespace
	defaults      func(content map[string]any) // what the real server fills in and others depend on
	bornStatus    bool                         // create keeps the status that it was given
	unconditional bool                         // an update may leave out resourceVersion
	uncounted     bool                         // has no metadata.generation
}

// builtin are the types that every server has.
func builtin() []Type {
	eventFields := []string{"involvedObject.kind", "involvedObject.name",
		"involvedObject.namespace", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"involvedObject.fieldPath", "reason", "reportingComponent", "type"}
	plain := []Type{
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "ConfigMap",
			Resource: "configmaps", Namespaced: true, ShortNames: []string{"cm"}},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Secret", Resource: "secrets",
			Namespaced: true, fields: []string{"type"}, defaults: secretDefaults},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "ServiceAccount",
			Resource: "serviceaccounts", Namespaced: true, ShortNames: []string{"sa"}},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Event", Resource: "events",
			Namespaced: true, ShortNames: []string{"ev"}, fields: eventFields},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Node", Resource: "nodes",
			Status: true, ShortNames: []string{"no"}, bornStatus: true},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Namespace", Resource: "namespaces",
			Status: true, ShortNames: []string{"ns"}, fields: []string{"status.phase"}, defaults: namespaceDefaults},
		{GroupVersion: eventsv1.SchemeGroupVersion, Kind: "Event",
			Resource: "events", Namespaced: true, ShortNames: []string{"ev"}, aliases: eventNames},
		{GroupVersion: storagev1.SchemeGroupVersion, Kind: "StorageClass",
			Resource: "storageclasses", ShortNames: []string{"sc"}},
	}
	columns := map[string][]apiextensionsv1.CustomResourceColumnDefinition{
		"events": {{Name: "Last Seen", Type: "date", JSONPath: ".metadata.creationTimestamp"}, text("Type", ".type"),
			text("Reason", ".reason"), text("Object", ".involvedObject.name"), text("Message", ".message")},
		"namespaces": {text("Status", ".status.phase"), age},
		"nodes": {text("Status", `.status.conditions[?(@.type=="Ready")].reason`),
			text("Version", ".status.nodeInfo.kubeletVersion"), age},
	}
	for i := range plain {
		plain[i].columns = columns[plain[i].Resource]
		plain[i].unconditional, plain[i].uncounted = true, true
	}
	return append(plain,
		Type{GroupVersion: coordinationv1.SchemeGroupVersion, Kind: "Lease",
			Resource: "leases", Namespaced: true, uncounted: true},
		Type{GroupVersion: corev1.SchemeGroupVersion, Kind: "Pod",
			Resource: "pods", Namespaced: true, Status: true, ShortNames: []string{"po"},
			fields: []string{"spec.nodeName", "status.phase"}, defaults: podDefaults, unconditional: true,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{text("Status", ".status.phase"),
				text("Node", ".spec.nodeName"), age}})
}

// text is a column of a built-in type. A real server has more of them, which no library of Kubernetes has.
func text(name, path string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: "string", JSONPath: path}
}

func (t Type) gvk() schema.GroupVersionKind { return t.GroupVersion.WithKind(t.Kind) }

func (t Type) groupResource() schema.GroupResource {
	return t.GroupVersion.WithResource(t.Resource).GroupResource()
}

// typed tells whether a Go type, and with it a schema, is known.
func (t Type) typed() bool { return scheme.Scheme.Recognizes(t.gvk()) }

// blank is an object of this type with nothing but a name.
func (t Type) blank(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(t.gvk())
	u.SetName(name)
	return u
}

func (t Type) checkName(name string, prefix bool) []string {
	if t.Resource == "namespaces" {
		return validation.NameIsDNSLabel(name, prefix)
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}

// at reads the string at a dotted path; what is absent is empty, as in
// Kubernetes' own field selectors.
func at(content map[string]any, path string) string {
	s, _, _ := unstructured.NestedString(content, strings.Split(path, ".")...)
	return s
}
