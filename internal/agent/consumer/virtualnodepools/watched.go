package virtualnodepools

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// syncWithin bounds how long the first list of a namespace may take.
const syncWithin = 30 * time.Second

// Watched caches the pods and claims of the namespaces of VirtualNodePools, by one watch for each. The
// inventory's watch has neither pods that wait nor what decides where they may run.
type Watched struct {
	Manager ctrl.Manager
	Usage

	mu   sync.Mutex
	open map[string]*watched // by namespace
}

// Usage knows what pods request. inventory.Inventory is one.
type Usage interface {
	UsedOn(node string) api.Resources
}

// watched is the cache of one namespace.
type watched struct {
	client.Reader
	changed func()
	stop    context.CancelFunc
}

// In implements [Namespaces]. It watches the namespace until ctx ends, or [Watched.Only] stops it. Errors:
// the API server does not answer.
func (w *Watched) In(ctx context.Context, namespace string, do func()) (client.Reader, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.open[namespace]; known != nil {
		known.changed = do
		return known, nil
	}
	c, err := cache.New(w.Manager.GetConfig(), cache.Options{
		HTTPClient: w.Manager.GetHTTPClient(), Scheme: w.Manager.GetScheme(), Mapper: w.Manager.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	watch := &watched{Reader: c, changed: do, stop: stop}
	changed := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		watch.changed()
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
			})
		}
		if err != nil {
			stop()
			return nil, err
		}
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx alone
	wait, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	if !c.WaitForCacheSync(wait) {
		stop()
		return nil, wait.Err()
	}
	if w.open == nil {
		w.open = map[string]*watched{}
	}
	w.open[namespace] = watch
	return watch, nil
}

// Only implements [Namespaces]. It stops watching the other namespaces.
func (w *Watched) Only(namespaces map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, watch := range w.open {
		if namespaces[name] == "" {
			watch.stop()
			delete(w.open, name)
		}
	}
}
