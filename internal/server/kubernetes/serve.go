package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Options say what is served where.
type Options struct {
	Server *server.Server
	// Cluster is the broker's own cluster.
	Cluster *rest.Config
	// Again is how often everything is looked at without a change. Default 30 s.
	Again time.Duration
	Log   *slog.Logger
}

// office has a desk for each namespace that is bound to a cluster.
type office struct {
	Options
	cache  cache.Cache
	client client.Client // reads from the cache, but for accounts and namespaces
	rest   http.Handler
	log    *slog.Logger

	// accounts has the members' accounts and what binds them to their rights. It is apart, so that nothing else waits where the broker may
	// not see them.
	accounts      cache.Cache
	accountsKnown atomic.Bool
	// claims are the clusters whose namespace may have to be made.
	claims     workqueue.TypedRateLimitingInterface[string]
	complaints sync.Map // by cluster: why it was not bound, as it was logged

	mu    sync.Mutex
	desks map[string]*desk // by namespace
	all   sync.WaitGroup
}

// firstTry and lastTry are how soon a namespace that could not be made is tried again, at first and in the end.
const firstTry, lastTry = 100 * time.Millisecond, 5 * time.Minute

// Run serves until ctx ends. A cluster that is away is waited for.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Again == 0 {
		o.Again = 30 * time.Second
	}
	config := rest.CopyConfig(o.Cluster)
	config.QPS = -1 // the API server shares itself out fairly; a limit here only makes members wait
	f := &office{Options: o, log: o.Log.With("part", "kubernetes"), desks: map[string]*desk{},
		claims: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstTry, lastTry))}
	f.rest = o.Server.For(func(r *http.Request) (server.Caller, error) {
		caller, ok := r.Context().Value(callerKey{}).(server.Caller)
		if !ok {
			return caller, api.Errorf(api.CodeUnauthenticated, "the call is nobody's")
		}
		return caller, nil
	})
	if err := f.open(config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.all.Wait()
	defer cancel()
	if err := f.listen(ctx); err != nil {
		return err
	}
	f.all.Go(func() { f.check(ctx) })
	f.all.Go(func() { f.followMembers(ctx) })
	f.all.Go(func() { f.followAccounts(ctx) })
	f.all.Go(func() {
		if err := f.accounts.Start(ctx); err != nil {
			f.log.Error("the members' accounts are not watched", "error", err)
		}
	})
	return f.cache.Start(ctx)
}

// check says in the log whether members can be served, and what to do where they cannot: the cache tries again for ever.
func (f *office) check(ctx context.Context) {
	early, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	switch {
	case f.cache.WaitForCacheSync(early):
		f.log.Info("members are served through objects, too", "cluster", f.Cluster.Host)
	case ctx.Err() == nil:
		f.log.Warn("members cannot be served through objects yet: the cluster does not answer, or lacks the kinds or the rights", "cluster", f.Cluster.Host, "remedy", "kubectl apply -k config/kubernetes")
	}
}

// open makes the client, and the caches of all namespaces that are bound to a cluster and of what is in them.
func (f *office) open(config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		return err
	}
	m := kubernetes.Mapper()
	bound, err := labels.NewRequirement(kubernetes.ClusterLabel, selection.Exists, nil)
	if err != nil {
		return err
	}
	f.cache, err = cache.New(config, cache.Options{Scheme: scheme, Mapper: m, ByObject: map[client.Object]cache.ByObject{
		&corev1.Namespace{}: {Label: labels.NewSelector().Add(*bound)},
	}})
	if err != nil {
		return err
	}
	f.accounts, err = cache.New(config, cache.Options{
		Scheme: scheme, Mapper: m,
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", kubernetes.Account), // RBAC goes by it
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				f.complain(ctx, "", err)
			} else {
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
			}
		},
	})
	if err != nil {
		return err
	}
	f.client, err = client.New(config, client.Options{Scheme: scheme, Mapper: m, Cache: &client.CacheOptions{
		Reader: f.cache, Unstructured: true, DisableFor: []client.Object{&corev1.ServiceAccount{}, &corev1.Namespace{}},
	}})
	return err
}

// listen has desks opened, closed and woken.
func (f *office) listen(ctx context.Context) error {
	namespaces, err := f.cache.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	f.handle(namespaces, func(object client.Object, gone bool) { f.seat(ctx, object, gone) })
	for _, watched := range []struct {
		in   cache.Cache
		kind client.Object
		tell func(*desk)
	}{
		{f.cache, kubernetes.Object(kubernetes.Advertisements, "", ""), (*desk).wake},
		{f.cache, kubernetes.Object(kubernetes.Reservations, "", ""), (*desk).change},
		{f.accounts, &corev1.ServiceAccount{}, (*desk).change},
		{f.accounts, &rbacv1.RoleBinding{}, (*desk).change},
	} {
		informer, err := watched.in.GetInformer(ctx, watched.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		f.handle(informer, func(object client.Object, _ bool) { f.tell(object.GetNamespace(), watched.tell) })
	}
	return nil
}

func (f *office) handle(i cache.Informer, do func(object client.Object, gone bool)) {
	_, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { do(object.(client.Object), false) },
		UpdateFunc: func(_, object any) { do(object.(client.Object), false) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if o, ok := object.(client.Object); ok {
				do(o, true)
			}
		},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		f.log.Error("an informer takes no handler", "error", err)
	}
}

// seat opens the desk of a namespace, or closes it. Only the namespace that a cluster's is to be called is bound to it.
func (f *office) seat(ctx context.Context, namespace client.Object, gone bool) {
	cluster := namespace.GetLabels()[kubernetes.ClusterLabel]
	f.claims.Add(cluster) // where it is gone, a member may need another
	gone = gone || cluster == "" || namespace.GetDeletionTimestamp() != nil || namespace.GetName() != kubernetes.Namespace(cluster)
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.desks[namespace.GetName()]
	switch {
	case d != nil && (gone || d.cluster != cluster):
		f.claims.Add(d.cluster)
		d.close()
		delete(f.desks, namespace.GetName())
	case d == nil && !gone && ctx.Err() == nil:
		d = newDesk(f, cluster, namespace.GetName())
		f.desks[namespace.GetName()] = d
		ctx, d.close = context.WithCancel(ctx)
		f.all.Go(func() { d.run(ctx) })
	}
}

// tell has the desk of a namespace told something, if there is one.
func (f *office) tell(namespace string, what func(*desk)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.desks[namespace]; d != nil {
		what(d)
	}
}

type callerKey struct{}

// as makes the REST API know whose call it is.
func as(ctx context.Context, role tlsid.Role, cluster string) context.Context {
	return context.WithValue(ctx, callerKey{}, server.Caller{Role: role, Name: cluster})
}
