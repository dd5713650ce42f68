package enrollment

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// recordWithin bounds how long an agent waits for its record at its start, and recordAgain is how soon it tries again
// there. An API server that refuses it, such as one with older kinds, keeps no agent from its work.
const recordWithin, recordAgain = 10 * time.Second, time.Second

// RecordOptions say what a Record records.
type RecordOptions struct {
	// Client reads from the API server, not from a cache.
	Client client.WithWatch
	// Own is this agent. Former are the fingerprints of keys that it had.
	Own    api.RecordedAgent
	Former []string
	Clock  clock.Clock
	Log    *slog.Logger
}

// Record keeps the object Agent of this cluster. It records the agent where none is recorded. After a namespace that was
// made again or restored, another agent is recorded, whose key or Ledger is lost: then Record leaves the object as it is,
// until an admin deletes it. Several goroutines may use it.
type Record struct {
	RecordOptions

	mu    sync.Mutex
	other *api.RecordedAgent // that is recorded instead of this one
	err   error              // of the last look
}

// NewRecord returns a Record that has not looked yet: see Make.
func NewRecord(o RecordOptions) *Record { return &Record{RecordOptions: o} }

// Other returns the agent that is recorded instead of this one. Nil: there is none. Errors: those of the API server, which
// let the agent neither read nor write the object.
func (r *Record) Other() (*api.RecordedAgent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.other, r.err
}

// Make records the agent before it does anything. It tries for at most recordWithin, and not again where the API server
// has no such kind or the agent no right to it: Run goes on to try.
func (r *Record) Make(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	for {
		err := r.look(ctx)
		if err == nil {
			return
		}
		isLater := meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
		if !isLater {
			select {
			case <-r.Clock.After(recordAgain):
				continue
			case <-ctx.Done():
			}
		}
		r.Log.Warn("this agent is not recorded in the object Agent yet", "error", err)
		return
	}
}

// Run looks at the object whenever it changes, until ctx ends.
func (r *Record) Run(ctx context.Context) error {
	for {
		if err := r.follow(ctx); err != nil && ctx.Err() == nil {
			r.Log.Debug("the object Agent cannot be watched", "error", err)
		}
		select {
		case <-r.Clock.After(watchAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow looks at the object, and after each change of it, until the watch breaks.
func (r *Record) follow(ctx context.Context) error {
	return kubeobject.Follow(ctx, func() (watch.Interface, error) {
		return r.Client.Watch(ctx, &api.AgentList{}, client.MatchingFields{metav1.ObjectNameField: api.AgentName})
	}, r.look, func(watch.Event) error { return r.look(ctx) })
}

// look records the agent, or notes which other one is recorded. Errors: those of the API server.
func (r *Record) look(ctx context.Context) error {
	other, err := r.recordOrFind(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; meta.IsNoMatchError(err) {
		r.err = nil // CRDsOlder says so
	}
	if err != nil {
		return err
	}
	if other != nil && r.other == nil {
		r.Log.Warn("another agent is recorded in the object Agent", "key", other.Fingerprint, "ledger", other.Ledger,
			"namespace", other.Namespace)
	}
	r.other = other
	return nil
}

// recordOrFind records the agent, or returns which other one is recorded.
func (r *Record) recordOrFind(ctx context.Context) (other *api.RecordedAgent, err error) {
	object := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, object)
	}
	if err != nil {
		return nil, err
	}
	if known := &object.Status; known.Fingerprint != "" && !r.isOwn(known) {
		return known, nil
	}
	return nil, kubeobject.ReplaceStatus(ctx, r.Client, object, &object.Status, r.Own)
}

// isOwn reports whether a recorded agent is this one: it has the Ledger, and a key that is or was this one's.
func (r *Record) isOwn(known *api.RecordedAgent) bool {
	return known.Ledger == r.Own.Ledger &&
		(known.Fingerprint == r.Own.Fingerprint || slices.Contains(r.Former, known.Fingerprint))
}
