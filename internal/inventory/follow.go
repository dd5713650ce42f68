package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize is the number of objects in a page of a list.
const pageSize = 500

type (
	lister[L runtime.Object] func(context.Context, metav1.ListOptions) (L, error)
	opener                   func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// follow keeps store equal to the state of the API server until ctx ends. It uses one watch, which also sends
// the current state. If the server cannot do that, a list in pages precedes the watch. follow lists again
// only if the server no longer has our revision.
func follow[T any, L runtime.Object](ctx context.Context, client any,
	store *kept[T], list lister[L], open opener, fields string) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = fields
			// Versions other than "" make servers ignore the page size, and none is newer.
			options.ResourceVersion = ""
			page, err := list(ctx, options)
			if err != nil {
				return nil, err
			}
			return store.reducedPage(page)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fields
			return open(ctx, options)
		},
	}
	reflector := cache.NewReflector(cache.ToListWatcherWithWatchListSemantics(source, client), store.kind, store, 0)
	reflector.WatchListPageSize = pageSize
	reflector.RunWithContext(ctx)
}

// reducedPage is a page with the kept part of its objects.
func (k *kept[T]) reducedPage(page runtime.Object) (runtime.Object, error) {
	from, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	to := &internalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion: from.GetResourceVersion(),
		Continue:        from.GetContinue(),
	}}
	err = meta.EachListItem(page, func(obj runtime.Object) error {
		r, err := k.reduced(obj)
		to.Items = append(to.Items, r)
		return err
	})
	return to, err
}

// versionThen asks the API server for its version before each watch: every five to ten minutes, and after
// each lost connection, for example by an upgrade.
func (i *Inventory) versionThen(open opener) opener {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if version, err := i.client.Discovery().ServerVersion(); err != nil {
			i.options.Logger.Warn("the version of Kubernetes is not known; asking again when the watch is renewed", "error", err)
		} else {
			i.setKubernetes(version.GitVersion)
		}
		return open(ctx, options)
	}
}

func (i *Inventory) setKubernetes(version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kubernetes != version {
		i.kubernetes = version
		i.signal()
	}
}
