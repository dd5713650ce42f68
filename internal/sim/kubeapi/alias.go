package kubeapi

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// eventNames are the fields of the core's Events that have another name in events.k8s.io. Programs write Events there,
// and kubectl reads them in the core: they are stored once, as the core's.
var eventNames = map[string]string{
	"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount",
	"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
	"reportingComponent": "reportingController",
}

// coreEvents is what an alias is stored as.
var coreEvents = schema.GroupResource{Resource: "events"}

// stored returns an object, or a merge patch of one, with the names under which it is stored. What is neither is
// returned as it is: others refuse it.
func (t *Type) stored(body []byte) []byte {
	var u map[string]any
	if bytes.HasPrefix(body, protobufPrefix) {
		if decoded, err := (&table{Type: *t}).protobuf(body); err == nil {
			u = decoded.Object
		}
	} else {
		u, _ = content(body)
	}
	if len(u) == 0 {
		return body
	}
	for name, other := range t.aliases {
		rename(u, other, name)
	}
	if u["apiVersion"] == t.GroupVersion.String() {
		u["apiVersion"] = corev1.SchemeGroupVersion.String()
	}
	return marshal(u)
}

// shown returns an object with the names of the alias.
func (t *Type) shown(o *object) []byte {
	u := o.decoded()
	for name, other := range t.aliases {
		rename(u.Object, name, other)
	}
	u.SetGroupVersionKind(t.gvk())
	return marshal(u.Object)
}

func rename(content map[string]any, from, to string) {
	if value, ok := content[from]; ok {
		content[to] = value
		delete(content, from)
	}
}
