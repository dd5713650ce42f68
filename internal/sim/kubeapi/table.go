package kubeapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bourse-dev/bourse/internal/payload"
)

// maxObject is what etcd takes in one request. An object that outgrows a real
// cluster shall not fit here either.
const maxObject = 3 << 19 // 1.5 MiB

// object is one revision of one object, never changed once made. It is kept
// as the JSON that clients read, so that a get costs nothing, a list a
// concatenation, and a pod about a kilobyte. Beside it stands what selectors
// and garbage collection ask for.
type object struct {
	key      types.NamespacedName
	uid      types.UID
	revision uint64
	owners   []types.UID
	labels   labels.Set
	fields   fields.Set
	raw      json.RawMessage
}

// event is a step from one revision to the next: before is nil for what was
// created; after is, for what was deleted, its last state.
type event struct {
	kind          watch.EventType
	before, after *object
}

// table holds all objects of one type, and its recent past.
type table struct {
	Type
	objects  map[types.NamespacedName]*object
	past     []event
	floor    uint64                                 // the past is complete from here
	changed  chan struct{}                          // closed at the next event
	managers map[string]*managedfields.FieldManager // by subresource, made when first needed
}

func (a *API) register(t Type) {
	if t.custom == nil && !t.typed() {
		var fields apiextensionsv1.JSONSchemaProps
		if err := errors.Join(payload.ReadYAML([]byte(anyFields), &fields), t.describe(&fields)); err != nil {
			panic(err) // they are ours
		}
	}
	a.tables = slices.DeleteFunc(a.tables, func(old *table) bool { return old.groupResource() == t.groupResource() })
	a.tables = append(a.tables, &table{
		Type: t, floor: a.revision, objects: map[types.NamespacedName]*object{}, changed: make(chan struct{}),
		managers: map[string]*managedfields.FieldManager{},
	})
}

func (a *API) table(gr schema.GroupResource) *table {
	for _, t := range a.tables {
		if t.groupResource() == gr {
			return t
		}
	}
	return nil
}

// commit stores u as the next revision and tells the watchers. before is what
// it replaces.
func (a *API) commit(t *table, kind watch.EventType, before *object, u *unstructured.Unstructured) (*object, error) {
	after, err := t.encode(u, a.revision+1)
	if err != nil {
		return nil, err
	}
	a.revision++
	if kind == watch.Deleted {
		delete(t.objects, after.key)
	} else {
		t.objects[after.key] = after
	}
	if t.past = append(t.past, event{kind, before, after}); len(t.past) > a.history {
		forgotten := len(t.past) - a.history/2
		t.floor = t.past[forgotten-1].after.revision
		t.past = slices.Delete(t.past, 0, forgotten)
	}
	close(t.changed)
	t.changed = make(chan struct{})
	return after, nil
}

func (t *table) encode(u *unstructured.Unstructured, revision uint64) (*object, error) {
	u.SetResourceVersion(strconv.FormatUint(revision, 10))
	raw := marshal(u.Object)
	if len(raw) > maxObject {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s %q has %d bytes, limit is %d",
			t.Kind, u.GetName(), len(raw), maxObject))
	}
	o := &object{
		key: types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, uid: u.GetUID(),
		revision: revision, labels: u.GetLabels(), raw: raw,
		fields: fields.Set{"metadata.name": u.GetName(), "metadata.namespace": u.GetNamespace()},
	}
	for _, path := range t.fields {
		o.fields[path] = at(u.Object, path)
	}
	for _, owner := range u.GetOwnerReferences() {
		o.owners = append(o.owners, owner.UID)
	}
	return o, nil
}

// decoded is a copy that may be changed.
func (o *object) decoded() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(o.raw, &u.Object); err != nil {
		panic(fmt.Sprintf("stored object %s is not JSON: %v", o.key, err)) // encode wrote it
	}
	return u
}

// matching returns the objects that match, by name.
func (t *table) matching(match func(*object) bool) []*object {
	var found []*object
	for _, o := range t.objects {
		if match(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
	})
	return found
}

// current is the revision that o's object has now; nil if it is gone.
func (t *table) current(o *object) *object {
	if now := t.objects[o.key]; now != nil && now.uid == o.uid {
		return now
	}
	return nil
}
