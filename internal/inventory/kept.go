package inventory

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// kept is what is remembered of the objects of one kind, by "namespace/name". A reflector fills
// it. Events, and a new list after a lost connection, all become calls of moved: nothing else
// need know how a change arrived.
type kept[T any] struct {
	inventory *Inventory                    // its lock guards items
	kind      runtime.Object                // an example of what is reduced
	reduce    func(obj any) (T, bool)       // what is kept of an object; false: nothing
	moved     func(key string, from, to *T) // nil: was or is not there; called locked
	items     map[string]T
	synced    bool
}

var _ cache.TransformingStore = (*kept[pod])(nil)

func keep[T any](i *Inventory, kind runtime.Object, reduce func(any) (T, bool), moved func(string, *T, *T)) *kept[T] {
	return &kept[T]{inventory: i, kind: kind, reduce: reduce, moved: moved, items: map[string]T{}}
}

// Transformer reduces objects while client-go still collects them, so that the first list of a
// large cluster is never in memory as objects.
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

// Replace makes list all there is, in one step for those who measure.
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

// Resync does nothing: nothing here forgets.
func (k *kept[T]) Resync() error { return nil }

// put makes to what is kept under key; nil is nothing.
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

// reduced is what is kept of an object on its way through client-go, which wants a name of it,
// and in lists a runtime.Object. It does not change once made, so it is its own copy.
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
