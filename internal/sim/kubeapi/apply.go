package kubeapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// apply merges what a manager wants into what is stored (old, nil if nothing
// is), with the library that the real server uses.
func (a *API) apply(q *request, old *object) (*object, error) {
	var err error
	wanted := &unstructured.Unstructured{}
	if wanted.Object, err = content(q.body); err != nil {
		return nil, err
	}
	if old == nil && q.subresource != "" {
		return nil, q.notFound()
	}
	if old == nil && wanted.GetUID() != "" {
		return nil, q.conflict(fmt.Sprintf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", wanted.GetUID()))
	}
	owners, err := q.table.owners(q.subresource)
	if err != nil {
		return nil, err
	}
	live := q.table.blank("")
	if old != nil {
		live = old.decoded()
	}
	merged, err := owners.Apply(live, wanted, q.manager(), q.options.Force != nil && *q.options.Force)
	if err != nil {
		return nil, err
	}
	fresh, err := q.table.normal(timeless(merged))
	if err != nil {
		return nil, unprocessable(err)
	}
	if err := q.fill(fresh); err != nil {
		return nil, q.refusedPatch(err)
	}
	if old == nil {
		return a.insert(q, fresh)
	}
	return a.replace(q, old, old.decoded(), fresh)
}

// own notes, on an object that was ever applied, that the fields changed
// between was and fresh now belong to the manager of this request.
func (a *API) own(q *request, was, fresh *unstructured.Unstructured) error {
	if len(was.GetManagedFields()) == 0 {
		fresh.SetManagedFields(nil)
		return nil
	}
	owners, err := q.table.owners(q.subresource)
	if err != nil {
		return err
	}
	timeless(owners.UpdateNoErrors(was, fresh, q.manager()))
	return nil
}

// owners records which manager owns which field, in the format of metadata.managedFields.
func (t *table) owners(subresource string) (*managedfields.FieldManager, error) {
	if m := t.managers[subresource]; m != nil {
		return m, nil
	}
	// What a write cannot change, it does not come to own.
	ignored := "spec"
	if subresource == "" {
		ignored = "status"
	}
	resets := map[fieldpath.APIVersion]fieldpath.Filter{}
	if t.Status {
		version := fieldpath.APIVersion(t.GroupVersion.String())
		resets[version] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie(ignored)))
	}
	var shapes managedfields.TypeConverter
	if t.custom != nil {
		shapes = t.custom.shapes
	} else {
		shapes = applyconfigurations.NewTypeConverter(scheme.Scheme)
	}
	m, err := managedfields.NewDefaultFieldManager(shapes, asIs{},
		asIs{}, asIs{}, t.gvk(), t.GroupVersion, subresource, resets)
	t.managers[subresource] = m
	return m, err
}

// timeless removes when fields were set: only that would differ from run to run.
func timeless(o runtime.Object) *unstructured.Unstructured {
	u := o.(*unstructured.Unstructured)
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	u.SetManagedFields(entries)
	return u
}

// asIs says that there is one version of everything and that it has no defaults.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return nil }
func (asIs) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (asIs) Default(runtime.Object) {}
func (asIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
