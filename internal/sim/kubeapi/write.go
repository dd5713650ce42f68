package kubeapi

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

func (a *API) create(q *request) (*object, error) {
	fresh, err := q.decode()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	q.key.Name = fresh.GetName()
	for prefix := fresh.GetGenerateName(); q.key.Name == "" && prefix != ""; {
		if name := prefix + a.suffix(); q.table.objects[types.NamespacedName{Namespace: q.key.Namespace, Name: name}] == nil {
			q.key.Name = name
			fresh.SetName(name)
		}
	}
	return a.insert(q, fresh)
}

// insert makes fresh the first revision of an object.
func (a *API) insert(q *request, fresh *unstructured.Unstructured) (*object, error) {
	t := q.table
	if err := q.claim(fresh); err != nil {
		return nil, err
	}
	if fresh.GetResourceVersion() != "" {
		return nil, apierrors.NewInternalError(errors.New("resourceVersion should not be set on objects to be created"))
	}
	fresh.SetUID(types.UID(uuid.Must(uuid.NewRandomFromReader(a.random)).String()))
	fresh.SetCreationTimestamp(metav1.NewTime(a.clock()))
	fresh.SetDeletionTimestamp(nil)
	fresh.SetDeletionGracePeriodSeconds(nil)
	fresh.SetGeneration(1)
	if t.uncounted {
		fresh.SetGeneration(0)
	}
	if t.Status && !t.bornStatus {
		delete(fresh.Object, "status")
	}
	if t.defaults != nil {
		t.defaults(fresh.Object)
	}
	errs := validation.ValidateObjectMetaAccessor(fresh, t.Namespaced, t.checkName, field.NewPath("metadata"))
	errs = append(errs, t.custom.check(fresh.Object)...)
	if len(errs) > 0 {
		return nil, q.invalid(errs...)
	}
	if t.objects[q.key] != nil {
		return nil, apierrors.NewAlreadyExists(t.groupResource(), q.key.Name)
	}
	if q.dryRun() {
		return t.encode(fresh, 0)
	}
	o, err := a.commit(t, watch.Added, nil, fresh)
	if err == nil && a.orphaned(o) {
		_, err = a.remove(t, o) // its owners went before it came
	}
	q.created = err == nil
	return o, err
}

func (a *API) update(q *request) (*object, error) {
	fresh, err := q.decode()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := q.table.objects[q.key]
	if old == nil {
		return nil, q.notFound()
	}
	was := old.decoded()
	if err := a.own(q, was, fresh); err != nil {
		return nil, err
	}
	return a.replace(q, old, was, fresh)
}

// replace makes fresh the next revision of an object, if that may be: the end
// of every update and patch. was is old, decoded.
func (a *API) replace(q *request, old *object, was, fresh *unstructured.Unstructured) (*object, error) {
	t := q.table
	if err := q.claim(fresh); err != nil {
		return nil, err
	}
	if uid := fresh.GetUID(); uid != "" && uid != old.uid {
		if q.verb == "patch" {
			return nil, q.invalid(field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"))
		}
		return nil, q.conflict(fmt.Sprintf("the object named has uid %s, the one sent %s", old.uid, uid))
	}
	switch revision := fresh.GetResourceVersion(); {
	case revision == "" && !t.unconditional:
		return nil, q.invalid(field.Invalid(field.NewPath("metadata", "resourceVersion"),
			0, "must be specified for an update"))
	case revision != "" && revision != was.GetResourceVersion():
		return nil, q.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	q.separateStatus(was, fresh)
	keepSystemFields(was, fresh)
	if t.defaults != nil {
		t.defaults(fresh.Object)
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(fresh, t.Namespaced, t.checkName, path)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(fresh, was, path)...)
	if was.GetDeletionTimestamp() != nil {
		errs = append(errs, validation.ValidateNoNewFinalizers(fresh.GetFinalizers(),
			was.GetFinalizers(), path.Child("finalizers"))...)
	}
	same := reflect.DeepEqual(was.Object, fresh.Object)
	if !same {
		errs = append(errs, t.custom.check(fresh.Object)...)
	}
	if len(errs) > 0 {
		return nil, q.invalid(errs...)
	}
	if same {
		return old, nil
	}
	if !t.uncounted && t.specDiffers(was, fresh) {
		fresh.SetGeneration(was.GetGeneration() + 1)
	}
	if q.dryRun() {
		return t.encode(fresh, old.revision)
	}
	if fresh.GetDeletionTimestamp() != nil && len(fresh.GetFinalizers()) == 0 {
		return a.drop(t, old, fresh)
	}
	return a.commit(t, watch.Modified, old, fresh)
}

// claim checks that the object is the one that the path names.
func (q *request) claim(u *unstructured.Unstructured) error {
	if u.GetNamespace() == "" {
		u.SetNamespace(q.key.Namespace)
	}
	if u.GetNamespace() != q.key.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the "+
			"request (%s)", u.GetNamespace(), q.key.Namespace))
	}
	if u.GetName() != q.key.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)",
			u.GetName(), q.key.Name))
	}
	return nil
}

// separateStatus takes from fresh only what this request may write: through
// /status the status, else all but that.
func (q *request) separateStatus(was, fresh *unstructured.Unstructured) {
	switch {
	case q.subresource == "status":
		next := was.DeepCopy()
		next.SetManagedFields(fresh.GetManagedFields())
		carry("status", fresh.Object, next.Object)
		fresh.Object = next.Object
	case q.table.Status:
		carry("status", was.Object, fresh.Object)
	}
}

// keepSystemFields undoes what a client wrote into fields that are not its own.
func keepSystemFields(was, fresh *unstructured.Unstructured) {
	for _, name := range []string{"uid", "resourceVersion", "generation",
		"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		carry(name, was.Object["metadata"].(map[string]any), fresh.Object["metadata"].(map[string]any))
	}
}

// carry makes a field in one map what it is in another, absence included.
func carry(name string, from, to map[string]any) {
	if value, ok := from[name]; ok {
		to[name] = value
	} else {
		delete(to, name)
	}
}

// specDiffers tells whether anything but metadata, and a status of its own, changed.
func (t *table) specDiffers(was, fresh *unstructured.Unstructured) bool {
	rest := func(u *unstructured.Unstructured) map[string]any {
		content := maps.Clone(u.Object)
		delete(content, "metadata")
		if t.Status {
			delete(content, "status")
		}
		return content
	}
	return !reflect.DeepEqual(rest(was), rest(fresh))
}

// suffix is five characters as Kubernetes puts them after a generateName.
func (a *API) suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	random := rand.New(a.random)
	for i := range b {
		b[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(b)
}
