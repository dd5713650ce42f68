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

// Options configure the service.
type Options struct {
	Server *server.Server
	// Cluster is the broker's own cluster.
	Cluster *rest.Config
	// Again is the interval at which everything is checked without a change. Default 30 s.
	Again time.Duration
	Log   *slog.Logger
}

// service has a session for each namespace that is bound to a cluster.
type service struct {
	Options
	cache  cache.Cache
	client client.Client // reads from the cache, except accounts and namespaces
	rest   http.Handler
	log    *slog.Logger

	// accounts caches the members' accounts and role bindings. It is separate, so that nothing else waits
	// for it if the broker lacks the permission.
	accounts      cache.Cache
	accountsKnown atomic.Bool
	// claims holds the clusters that may need a namespace.
	claims     workqueue.TypedRateLimitingInterface[string]
	complaints sync.Map // by cluster: the last logged reason for which it is not bound

	mu       sync.Mutex
	sessions map[string]*memberSession // by namespace
	all      sync.WaitGroup
}

// firstTry and lastTry are the first and the last delay before a namespace is tried again.
const firstTry, lastTry = 100 * time.Millisecond, 5 * time.Minute

// Run serves until ctx ends. It waits for an unreachable cluster.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Again == 0 {
		o.Again = 30 * time.Second
	}
	config := rest.CopyConfig(o.Cluster)
	config.QPS = -1 // the API server limits fairly; a limit here would only delay members
	f := &service{Options: o, log: o.Log.With("part", "kubernetes"), sessions: map[string]*memberSession{},
		claims: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstTry,
			lastTry))}
	defer f.claims.ShutDown()
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

// check logs whether members can be served, and a remedy if not: the cache itself retries forever.
func (f *service) check(ctx context.Context) {
	early, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	switch {
	case f.cache.WaitForCacheSync(early):
		f.log.Info("members are served through objects, too", "cluster", f.Cluster.Host)
	case ctx.Err() == nil:
		f.log.Warn("members cannot be served through objects yet: the cluster does not answer, or lacks the kinds "+
			"or the rights", "cluster", f.Cluster.Host, "remedy", "kubectl apply -k config/kubernetes")
	}
}

// open makes the client, and the caches of all bound namespaces and their objects.
func (f *service) open(config *rest.Config) error {
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
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", kubernetes.Account), // RBAC allows only this name
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				f.logUnbound(ctx, "", err)
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

// listen opens, closes and wakes sessions on events.
func (f *service) listen(ctx context.Context) error {
	namespaces, err := f.cache.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	f.handle(namespaces, func(object client.Object, gone bool) { f.updateSession(ctx, object, gone) })
	for _, watched := range []struct {
		in   cache.Cache
		kind client.Object
		tell func(*memberSession)
	}{
		{f.cache, kubernetes.Object(kubernetes.Advertisements, "", ""), (*memberSession).wake},
		{f.cache, kubernetes.Object(kubernetes.Reservations, "", ""), (*memberSession).invalidate},
		{f.accounts, &corev1.ServiceAccount{}, (*memberSession).invalidate},
		{f.accounts, &rbacv1.RoleBinding{}, (*memberSession).invalidate},
	} {
		informer, err := watched.in.GetInformer(ctx, watched.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		f.handle(informer, func(object client.Object, _ bool) { f.notify(object.GetNamespace(), watched.tell) })
	}
	return nil
}

func (f *service) handle(i cache.Informer, do func(object client.Object, gone bool)) {
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

// updateSession opens or closes the session of a namespace. A cluster is bound only to the namespace with
// the name for it.
func (f *service) updateSession(ctx context.Context, namespace client.Object, gone bool) {
	cluster := namespace.GetLabels()[kubernetes.ClusterLabel]
	f.claims.Add(cluster) // if it is gone, the member may need another
	gone = gone || cluster == "" || namespace.GetDeletionTimestamp() != nil ||
		namespace.GetName() != kubernetes.Namespace(cluster)
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.sessions[namespace.GetName()]
	switch {
	case m != nil && (gone || m.cluster != cluster):
		f.claims.Add(m.cluster)
		m.close()
		delete(f.sessions, namespace.GetName())
	case m == nil && !gone && ctx.Err() == nil:
		m = newSession(f, cluster, namespace.GetName())
		f.sessions[namespace.GetName()] = m
		ctx, m.close = context.WithCancel(ctx)
		f.all.Go(func() { m.run(ctx) })
	}
}

// notify calls a function with the session of a namespace, if there is one.
func (f *service) notify(namespace string, what func(*memberSession)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.sessions[namespace]; m != nil {
		what(m)
	}
}

type callerKey struct{}

// as sets the caller for the REST API.
func as(ctx context.Context, role tlsid.Role, cluster string) context.Context {
	return context.WithValue(ctx, callerKey{}, server.Caller{Role: role, Name: cluster})
}
