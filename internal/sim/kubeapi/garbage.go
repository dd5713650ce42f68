package kubeapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// remove deletes an object, or marks it as being deleted while finalizers keep it.
func (a *API) remove(t *table, o *object) (*object, error) {
	u := o.decoded()
	if len(u.GetFinalizers()) == 0 {
		return a.drop(t, o, u)
	}
	if u.GetDeletionTimestamp() != nil {
		return o, nil
	}
	now := metav1.NewTime(a.clock())
	u.SetDeletionTimestamp(&now)
	u.SetDeletionGracePeriodSeconds(new(int64))
	if !t.uncounted {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	return a.commit(t, watch.Modified, o, u)
}

// drop ends an object's life, and that of what depended on it: a namespace's
// content, and an owner's dependents that have no other owner. last is its last
// state.
func (a *API) drop(t *table, o *object, last *unstructured.Unstructured) (*object, error) {
	gone, err := a.commit(t, watch.Deleted, o, last)
	if err != nil {
		return nil, err
	}
	if t.Kind == "Namespace" && t.GroupVersion.Group == "" {
		err = a.each(func(o *object) bool { return o.key.Namespace == gone.key.Name }, func(t *table, o *object) error {
			_, err := a.remove(t, o)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	owned := func(o *object) bool { return slices.Contains(o.owners, gone.uid) }
	return gone, a.each(owned, func(t *table, o *object) error {
		if a.orphaned(o) {
			_, err := a.remove(t, o)
			return err
		}
		return a.disown(t, o, gone.uid)
	})
}

// orphaned tells whether an object names owners and none of them lives.
func (a *API) orphaned(o *object) bool {
	if len(o.owners) == 0 {
		return false
	}
	for _, t := range a.tables {
		for _, other := range t.objects {
			if slices.Contains(o.owners, other.uid) {
				return false
			}
		}
	}
	return true
}

func (a *API) disown(t *table, o *object, owner types.UID) error {
	u := o.decoded()
	u.SetOwnerReferences(slices.DeleteFunc(u.GetOwnerReferences(),
		func(r metav1.OwnerReference) bool { return r.UID == owner }))
	_, err := a.commit(t, watch.Modified, o, u)
	return err
}

// each calls f, which may remove objects, with all that match and still live,
// by type and name: what follows from one deletion follows in one order.
func (a *API) each(match func(*object) bool, f func(*table, *object) error) error {
	for _, t := range a.tables {
		for _, o := range t.matching(match) {
			now := t.current(o)
			if now == nil {
				continue
			}
			if err := f(t, now); err != nil {
				return err
			}
		}
	}
	return nil
}
