package inventory

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// kept stores the reduced objects of one kind by "namespace/name". A reflector fills it. Events, and a new
// list after a lost connection, both become calls of moved.
type kept[T any] struct {
	inventory *Inventory                    // its lock guards items
	kind      runtime.Object                // an example of the kind
	reduce    func(obj any) (T, bool)       // the part of an object to keep; false: nothing
	moved     func(key string, from, to *T) // nil: did not or does not exist; called under the lock
	items     map[string]T
	synced    bool
}

var _ cache.TransformingStore = (*kept[pod])(nil)

func keep[T any](i *Inventory, kind runtime.Object, reduce func(any) (T, bool), moved func(string, *T, *T)) *kept[T] {
	return &kept[T]{inventory: i, kind: kind, reduce: reduce, moved: moved, items: map[string]T{}}
}

// Transformer reduces objects while client-go still collects them, so that the first list of a large cluster
// is never in memory as whole objects.
func (k *kept[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return k.reduced(obj) }
}

func (k *kept[T]) Add(obj any) error { return k.Update(obj) }

func (k *kept[T]) Update(obj any) error {
	r, err := k.reduced(obj)
	if err != nil {
		return err
	}
	k.inventory.mu.Lock()
	defer k.inventory.mu.Unlock()
	k.put(r.key, r.value)
	return nil
}

func (k *kept[T]) Delete(obj any) error {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	k.inventory.mu.Lock()
	defer k.inventory.mu.Unlock()
	k.put(key, nil)
	return nil
}

// Replace replaces all objects with list. Measurements see it as one step.
func (k *kept[T]) Replace(list []any, _ string) error {
	all := make([]*reduced[T], len(list))
	present := make(map[string]bool, len(list))
	for n, obj := range list {
		r, err := k.reduced(obj)
		if err != nil {
			return err
		}
		all[n], present[r.key] = r, true
	}
	k.inventory.mu.Lock()
	defer k.inventory.mu.Unlock()
	for key := range k.items {
		if !present[key] {
			k.put(key, nil)
		}
	}
	for _, r := range all {
		k.put(r.key, r.value)
	}
	if !k.synced {
		k.synced = true
		k.inventory.kindSynced()
	}
	return nil
}

// Resync does nothing, because no object is ever missed.
func (k *kept[T]) Resync() error { return nil }

// put stores to under key; nil deletes it.
func (k *kept[T]) put(key string, to *T) {
	var from *T
	if old, ok := k.items[key]; ok {
		from = &old
	}
	if from == nil && to == nil || from != nil && to != nil && reflect.DeepEqual(*from, *to) {
		return
	}
	if to == nil {
		delete(k.items, key)
	} else {
		k.items[key] = *to
	}
	k.moved(key, from, to)
	k.inventory.signal()
}

// kindSynced counts a kind as known.
func (i *Inventory) kindSynced() {
	i.unsynced--
	if i.unsynced == 0 {
		close(i.synced)
		i.signal()
	}
}

// reduced carries the kept part of an object through client-go, which needs a name, and in lists a
// runtime.Object. It is immutable, so it is its own copy.
type reduced[T any] struct {
	key   string
	value *T
}

func (k *kept[T]) reduced(obj any) (*reduced[T], error) {
	if r, ok := obj.(*reduced[T]); ok {
		return r, nil
	}
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, err
	}
	value, ok := k.reduce(obj)
	if !ok {
		return &reduced[T]{key: key}, nil
	}
	return &reduced[T]{key: key, value: &value}, nil
}

func (r *reduced[T]) GetObjectMeta() metav1.Object {
	namespace, name, _ := cache.SplitMetaNamespaceKey(r.key)
	return &metav1.ObjectMeta{Namespace: namespace, Name: name}
}
func (r *reduced[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (r *reduced[T]) DeepCopyObject() runtime.Object   { return r }
