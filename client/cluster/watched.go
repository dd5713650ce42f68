package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// probeEvery is how often Watched looks whether the API server still lets its user list a kind. A right that was taken
// away ends a watch without a word, as an API server that is away does.
const probeEvery = 10 * time.Second

// noObject selects none of the objects that a look lists: only whether the user may list them counts.
var noObject = kube.MatchingFields{"metadata.name": "-"}

// lookWithin bounds one look at a kind.
const lookWithin = 30 * time.Second

// Watched reads the kinds of package api from watches that it keeps, and calls a function when an object changes. It
// watches a kind in a namespace from its first read. Several goroutines may use it.
type Watched struct {
	kube.Client // what is written, and the first look at a kind
	ctx         context.Context
	config      *rest.Config
	known       *runtime.Scheme
	changed     func()

	mu     sync.Mutex             // no call is made under it
	caches map[string]cache.Cache // by namespace; "" is all
	kinds  map[kindIn]*watchedKind
}

type kindIn struct{ namespace, kind string }

// watchedKind is one kind in one namespace.
type watchedKind struct {
	first   chan struct{} // closed after the first look
	begun   time.Time     // when the first look began
	may     bool          // the user may list it: the first look waits for its objects
	missed  bool          // a reader did not wait for the first look
	looking bool
	looked  time.Time
	good    time.Time   // when a look last succeeded
	from    kube.Reader // nil: it is not watched yet
	err     error       // of the last look
}

// LoadingError is why a reader of a [Watched] has nothing yet: its context ended before the first look at a kind did. The
// function of the Watched is called once that has ended.
type LoadingError struct {
	Kind    string    // such as "ResourceRequest"
	Since   time.Time // when the first look began
	Allowed bool      // the API server has said that the user may list the kind, and sends its objects
	cause   error     // why the context ended
}

// Error implements error.
func (e *LoadingError) Error() string { return "the API server has not sent each " + e.Kind + " yet" }

// Unwrap returns the error that other callers handle, and why the context ended.
func (e *LoadingError) Unwrap() []error {
	return []error{api.Errorf(api.CodeUnavailable, "%s", e.Error()), e.cause}
}

// NewWatched makes a client whose reads come from watches. They end with ctx.
func NewWatched(ctx context.Context, config *rest.Config, changed func()) (*Watched, error) {
	direct, err := NewObjects(config)
	if err != nil {
		return nil, err
	}
	return &Watched{Client: direct, ctx: ctx, config: unlimited(config), known: direct.Scheme(), changed: changed,
		caches: map[string]cache.Cache{}, kinds: map[kindIn]*watchedKind{}}, nil
}

// ReadFrom returns a client that asks as c does and reads objects from r. It writes as r does.
func (c *Client) ReadFrom(r kube.Client) *Client {
	out := At(c.Client, r, c.namespaces...)
	out.whole, out.askers, out.home = c.whole, c.askers, c.home
	return out
}

// Get implements kube.Reader.
func (w *Watched) Get(ctx context.Context, key kube.ObjectKey, o kube.Object, how ...kube.GetOption) error {
	namespace := key.Namespace
	if w.watchesAll(o) {
		namespace = "" // a list of all namespaces has it already
	}
	from, err := w.reader(ctx, namespace, o)
	if err != nil {
		return err
	}
	return from.Get(ctx, key, o, how...)
}

// watchesAll reports whether a kind is watched in all namespaces.
func (w *Watched) watchesAll(o kube.Object) bool {
	gvk, err := apiutil.GVKForObject(o, w.known)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := w.kinds[kindIn{"", gvk.Kind}]
	return kind != nil && kind.from != nil && kind.err == nil
}

// List implements kube.Reader.
func (w *Watched) List(ctx context.Context, all kube.ObjectList, how ...kube.ListOption) error {
	of := (&kube.ListOptions{}).ApplyOptions(how)
	if of.FieldSelector != nil { // watches have no index of fields
		return w.Client.List(ctx, all, how...)
	}
	gvk, err := apiutil.GVKForObject(all, w.known)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	o, err := w.known.New(gvk)
	if err != nil {
		return err
	}
	from, err := w.reader(ctx, of.Namespace, o.(kube.Object))
	if err != nil {
		return err
	}
	return from.List(ctx, all, how...)
}

// reader returns what has the objects of a kind in a namespace. It waits for the first look at them alone: while an API
// server hangs, what is watched can be read. Errors: those of the last look.
func (w *Watched) reader(ctx context.Context, namespace string, o kube.Object) (kube.Reader, error) {
	gvk, err := apiutil.GVKForObject(o, w.known)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	key := kindIn{namespace, gvk.Kind}
	kind := w.kinds[key]
	if kind == nil {
		kind = &watchedKind{first: make(chan struct{}), begun: time.Now()}
		w.kinds[key] = kind
	}
	if !kind.looking && time.Since(kind.looked) > probeEvery {
		kind.looking = true
		go w.look(kind, namespace, gvk)
	}
	w.mu.Unlock()
	select {
	case <-kind.first:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind.looked.IsZero() {
		kind.missed = true
		return nil, &LoadingError{Kind: gvk.Kind, Since: kind.begun, Allowed: kind.may, cause: context.Cause(ctx)}
	}
	if kind.from != nil && isAway(kind.err) { // what was watched stands
		return kind.from, nil
	}
	return kind.from, kind.err
}

// Away returns why the API server does not answer, and since when what is read is that old. A nil error: it answers.
func (w *Watched) Away() (since time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range w.kinds {
		if kind.from != nil && isAway(kind.err) && (err == nil || kind.good.Before(since)) {
			since, err = kind.good, kind.err
		}
	}
	return since, kubeobject.Error(err)
}

// isAway reports whether an error is no word of an API server: it says nothing about rights.
func isAway(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonInternalError:
		return err != nil
	}
	return false
}

// look looks whether the user may list a kind, and watches it after the first time.
func (w *Watched) look(kind *watchedKind, namespace string, gvk schema.GroupVersionKind) {
	ctx, cancel := context.WithTimeout(w.ctx, lookWithin)
	defer cancel()
	w.mu.Lock()
	from := kind.from
	w.mu.Unlock()
	none, err := w.known.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err == nil {
		err = ofList(w.Client.List(ctx, none.(kube.ObjectList), kube.InNamespace(namespace), noObject))
	}
	if err == nil && from == nil {
		w.mu.Lock()
		kind.may = true
		w.mu.Unlock()
		from, err = w.watch(ctx, namespace, gvk)
	}
	w.mu.Lock()
	differs := (err == nil) != (kind.err == nil)
	first, missed := kind.looked.IsZero(), kind.missed
	kind.looking, kind.looked, kind.err = false, time.Now(), err
	if err == nil {
		kind.from, kind.good = from, kind.looked
	}
	w.mu.Unlock()
	if first {
		close(kind.first)
	}
	if missed && first || differs && !first {
		w.changed()
	}
}

// ofList returns the error of a look without the name of noObject, which its refusal would tell the user.
func ofList(err error) error {
	refused, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsForbidden(err) {
		return err
	}
	status := refused.ErrStatus
	status.Message = strings.Replace(status.Message, ` "-" is forbidden`, " is forbidden", 1)
	return &apierrors.StatusError{ErrStatus: status}
}

// watch returns what has the objects of a kind, once it has all of them.
func (w *Watched) watch(ctx context.Context, namespace string, gvk schema.GroupVersionKind) (kube.Reader, error) {
	from, err := w.cacheOf(namespace)
	if err != nil {
		return nil, err
	}
	o, err := w.known.New(gvk)
	if err != nil {
		return nil, err
	}
	informer, err := from.GetInformer(ctx, o.(kube.Object))
	if err != nil {
		return nil, err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed() }, UpdateFunc: func(_, _ any) { w.changed() }, DeleteFunc: func(any) { w.changed() },
	})
	return from, err
}

// cacheOf returns the cache of a namespace, which it starts.
func (w *Watched) cacheOf(namespace string) (cache.Cache, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.caches[namespace]; c != nil {
		return c, nil
	}
	o := cache.Options{Scheme: w.known, Mapper: mapper(w.known), DefaultTransform: kubeobject.StripManagedFields,
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { w.changed() }}
	if namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	c, err := cache.New(w.config, o)
	if err != nil {
		return nil, kubeobject.Error(err)
	}
	w.caches[namespace] = c
	go func() { _ = c.Start(w.ctx) }() // ends with ctx
	return c, nil
}

var _ kube.Client = (*Watched)(nil)
