// Package questions answers the users of this cluster who show a Session.
//
// A user makes a key and creates a Session, or a ClusterSession, with its hash. The agent that leads writes the hash of
// its own key and its address into the status. The user calls that address by TLS 1.3, where each party accepts the key
// that the object names, and no other. So the API server vouches for both, and the right to create the object is the
// right to ask: see package pinned and api.Session.
//
// Start at [Questions.Control], whose controllers answer the objects, and [Questions.Run], which serves their users. book has
// the sessions that are served. What may be asked, and by whom, is decided by the server: see server.Right.
package questions

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/pinned"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/turns"
)

// Lasts is how long a session is served after the agent answered it.
const Lasts = 15 * time.Minute

// bounds are those of a few users: all of them come from loopback. A client waits for an answer for 28 s.
var bounds = server.Bounds{Connections: 1024, Unidentified: 256, Waiting: 256, PerCaller: 16, Answer: 30 * time.Second}

// Options say what is asked, and where.
type Options struct {
	client.Client
	// Server answers the questions.
	Server *server.Server
	// Listen is the address to listen at, on loopback. Default "127.0.0.1:0".
	Listen string
	// Pod is the name of the agent's pod in Namespace, whose port users forward. Empty: the agent runs outside a pod, and
	// users reach its address.
	Pod, Namespace string

	Clock clock.PassiveClock
	Log   *slog.Logger
}

// Questions is the room. Its key is made with it: no other process can answer in its place, and the sessions that
// another one answered end.
type Questions struct {
	Options
	key  *pinned.Key
	book *book
	// listens is closed once address is known.
	listens chan struct{}
	address string
}

// New returns a room that does not listen yet.
func New(o Options) (*Questions, error) {
	key, err := pinned.NewKey()
	return &Questions{Options: o, key: key, book: newBook(), listens: make(chan struct{})}, err
}

// Run serves until ctx ends.
func (q *Questions) Run(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", q.Listen)
	if err != nil {
		return err
	}
	if q.address = l.Addr().String(); q.Pod != "" {
		_, port, err := net.SplitHostPort(q.address)
		if err != nil {
			return err
		}
		q.address = podAddress(q.Namespace, q.Pod, port)
	}
	close(q.listens)
	known := func(hash string) bool { return q.book.use(hash, q.Clock.Now()).found() }
	return server.ServeTLS(ctx, l, q.key.ServerTLS(known), q.logged(q.Server.For(q.caller)), bounds)
}

// podAddress returns the address of a port of a pod. It names no usual namespace: older programs know no other one.
func podAddress(namespace, pod, port string) string {
	if namespace != api.Namespace {
		pod = namespace + "/" + pod
	}
	return "pod:" + pod + ":" + port
}

type askerKey struct{}

// maxPath bounds the bytes of a path in the log.
const maxPath = 256

// logged logs each question with its outcome, and says in the answer for how many sessions it is. Those that come too
// fast are only in the log for debugging.
func (q *Questions) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := q.Clock.Now()
		var by asker
		if hash, err := pinned.Peer(*r.TLS); err == nil {
			by = q.book.use(hash, begun)
		}
		w.Header().Set(api.SessionsHeader, strconv.Itoa(len(by.uids)))
		outcome := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(outcome, r.WithContext(context.WithValue(r.Context(), askerKey{}, by)))
		level := slog.LevelInfo
		if outcome.status == http.StatusTooManyRequests {
			level = slog.LevelDebug
		}
		q.Log.Log(r.Context(), level, "a question", "namespaces", by.scope.Namespaces, "cluster", by.scope.Cluster, "sessions", by.uids,
			"method", r.Method, "path", r.URL.Path[:min(len(r.URL.Path), maxPath)], "status", outcome.status, "took", q.Clock.Since(begun))
	})
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// caller returns who asks. Errors: Unauthenticated.
func (q *Questions) caller(r *http.Request) (server.Caller, error) {
	asker, _ := r.Context().Value(askerKey{}).(asker)
	if !asker.found() {
		return server.Caller{}, api.Errorf(api.CodeUnauthenticated, "the session has ended").
			Fix("create another one: a session lasts %s", Lasts)
	}
	c := server.Caller{Role: server.RoleUsers, Name: "cluster", Scope: &asker.scope}
	if !asker.scope.Cluster {
		c.Name = "namespace " + asker.scope.Namespaces[0] // its questions count together
	}
	return c, nil
}

// Control starts the controllers of both kinds.
func (q *Questions) Control(m ctrl.Manager) error {
	for name, object := range map[string]client.Object{"session": &api.Session{}, "cluster-session": &api.ClusterSession{}} {
		err := ctrl.NewControllerManagedBy(m).Named(name).For(object).
			WithOptions(controller.Options{MaxConcurrentReconciles: 4, NewQueue: turns.New(turnOf).NewQueue}).
			Complete(reconcile.Func(func(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
				return q.reconcile(ctx, at, object.DeepCopyObject().(client.Object))
			}))
		if err != nil {
			return err
		}
	}
	return nil
}

// turnOf makes namespaces take turns.
func turnOf(at ctrl.Request) turns.Turn { return turns.Turn{Party: at.Namespace} }

// reconcile answers a session, or ends it: one that is over, and one that another process answered, whose client then
// makes another.
func (q *Questions) reconcile(ctx context.Context, at ctrl.Request, object client.Object) (ctrl.Result, error) {
	err := q.Get(ctx, at.NamespacedName, object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	if err != nil || object.GetDeletionTimestamp() != nil {
		q.book.end(at.NamespacedName)
		return ctrl.Result{}, nil
	}
	select {
	case <-q.listens:
	case <-ctx.Done():
		return ctrl.Result{}, ctx.Err()
	}
	spec, status := partsOf(object)
	now := q.Clock.Now()
	switch {
	case status.ServerKey == "":
		return q.answer(ctx, object, now)
	case status.ServerKey != q.key.Hash(), status.Expires == nil, !now.Before(status.Expires.Time):
		return ctrl.Result{}, q.delete(ctx, object)
	}
	return ctrl.Result{RequeueAfter: status.Expires.Sub(now)}, q.serve(ctx, object, spec.Key, status.Expires.Time)
}

// serve serves a session, and ends those for which its namespace has no room any more.
func (q *Questions) serve(ctx context.Context, object client.Object, key string, expires time.Time) (err error) {
	s := session{uid: object.GetUID(), key: key, expires: expires}
	for _, old := range q.book.put(client.ObjectKeyFromObject(object), s) {
		unused := object.DeepCopyObject().(client.Object)
		unused.SetName(old.name.Name)
		unused.SetUID(old.uid)
		err = errors.Join(err, q.delete(ctx, unused))
	}
	return err
}

// answer shows the user of a session where to ask.
func (q *Questions) answer(ctx context.Context, object client.Object, now time.Time) (ctrl.Result, error) {
	spec, status := partsOf(object)
	before := object.DeepCopyObject().(client.Object)
	expires := metav1.NewTime(now.Add(Lasts).Truncate(time.Second))
	*status = api.SessionStatus{ServerKey: q.key.Hash(), Address: q.address, Expires: &expires}
	// The user may call as soon as the status is written.
	if err := q.serve(ctx, object, spec.Key, expires.Time); err != nil {
		return ctrl.Result{}, err
	}
	if err := q.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil {
		q.book.end(client.ObjectKeyFromObject(object))
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	q.Log.Info("a user may ask", "namespace", object.GetNamespace(), "session", object.GetName(), "uid", object.GetUID(),
		"until", expires)
	return ctrl.Result{RequeueAfter: expires.Sub(now)}, nil
}

// delete deletes a session, whose end is told by its event.
func (q *Questions) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := q.Delete(ctx, object, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return nil // another one has that name
	}
	return kubeobject.Error(client.IgnoreNotFound(err))
}

// partsOf returns what both kinds have.
func partsOf(object client.Object) (*api.SessionSpec, *api.SessionStatus) {
	if s, ok := object.(*api.ClusterSession); ok {
		return &s.Spec, &s.Status
	}
	s := object.(*api.Session)
	return &s.Spec, &s.Status
}
