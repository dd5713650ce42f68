// Package kube keeps a journal in Ledger objects of a cluster: an agent's, which has no disk.
//
// One object, the Ledger itself, decides. Each append replaces it, by an update that holds only if
// nobody else wrote since (compare-and-swap on resourceVersion): of two live agents one gets
// through. A small journal is all in it. Of a larger one, the snapshot and the older batches lie in
// further objects, its parts. A part is written before the Ledger names it, by the hash of what it
// holds, and is not written again while it is named: an agent that is killed between two objects
// loses nothing.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Journal is a journal.Journal in a Ledger.
type Journal struct {
	client client.Client
	key    client.ObjectKey
	retry  wait.Backoff
	limits limits
	taken  map[int64]bool // parts that a Snapshot is writing
	size   atomic.Pointer[journal.Size]
	paces  paces
	waits  atomic.Int64

	mu      sync.Mutex
	object  *unstructured.Unstructured // as last read or written; nil: Load first
	content                            // what it says
	loads   int                        // how many there were
	fenced  bool                       // the Ledger's last write is by this journal
	next    int64                      // the part to be used next
	made    bool                       // all parts exist
	alone   bool                       // parts could not be written: all must fit into the Ledger itself

	versions struct { // of the parts that were written since the last Load
		sync.Mutex
		of map[int64]string
	}
}

var _ journal.Journal = (*Journal)(nil)

// New returns the journal in the Ledger named key and in as many parts, named after it; the first
// Load makes the object, but not its namespace. Without parts all of it is in one object. The
// client must read from the API server, not from a cache, for Load to see the latest.
func New(client client.Client, key client.ObjectKey, parts int64) *Journal {
	return &Journal{client: client, key: key, paces: newPaces(), retry: wait.Backoff{Duration: 100 * time.Millisecond,
		Factor: 2, Jitter: 0.2, Steps: 6},
		limits: limits{parts: parts, part: partSize, inlineTail: inlineTail, inlineSnapshot: inlineSnapshot,
			mergeSize: mergeSize}}
}

// Load implements journal.Journal.
func (j *Journal) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.object = nil
	object, found, state, err := j.readAll(ctx)
	if err == nil {
		image := found.image
		image.State = state
		err = image.Replay(onSnapshot, onRecord)
	}
	if err != nil {
		return journal.Head{}, fmt.Errorf("load ledger %s: %w", j.key, err)
	}
	found.plain = int64(len(state))
	j.object, j.content, j.fenced, j.made, j.taken = object, *found, false, false, map[int64]bool{}
	j.loads++
	j.versions.Lock()
	j.versions.of = map[int64]string{}
	j.versions.Unlock()
	j.size.Store(found.size(j.space()))
	return j.image.Head, nil
}

// readAll reads the Ledger with its parts. Where a part is not what the Ledger names, somebody may
// just have written another Ledger, which no longer names it.
func (j *Journal) readAll(ctx context.Context) (*unstructured.Unstructured, *content, []byte, error) {
	for {
		object, found, state, err := j.readOrCreate(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		state, err = j.readParts(ctx, found, state)
		odd, is := errors.AsType[*partError](err)
		if !is {
			return object, found, state, err
		}
		if _, now, _, err := j.readOrCreate(ctx); err != nil || now.write == found.write {
			return nil, nil, nil, cmp.Or(err, error(odd.refuse(j.key)))
		}
	}
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	if err := j.await(ctx, j.paces.appends); err != nil {
		return journal.Head{}, err
	}
	return j.change(ctx, func(next *content) error {
		if err := next.image.Append(after, events); err != nil {
			return err
		}
		if j.limits.parts == 0 || weigh(next.tail()) <= int64(j.limits.inlineTail) {
			return nil
		}
		err := j.file(ctx, next)
		j.alone = j.alone || unable(err)
		if errors.Is(err, journal.ErrConflict) || ctx.Err() != nil {
			j.object = nil
			return err
		}
		return nil // otherwise what is not filed stays where it is, as long as there is space
	})
}

// Snapshot implements journal.Journal.
func (j *Journal) Snapshot(ctx context.Context, at journal.Head, state []byte) error {
	if len(state) > MaxState {
		return fmt.Errorf("ledger %s: %w: a state of %d bytes, of at most %d: end what takes the space", j.key,
			journal.ErrFull, len(state), MaxState)
	}
	packed, err := pack(state)
	if err != nil {
		return err
	}
	var w written
	if j.limits.parts > 0 && len(packed) > j.limits.inlineSnapshot {
		switch err := j.writeParts(ctx, &w, at, packed); {
		case err == nil:
			defer j.release(&w)
			packed = nil
		case !unable(err) || int64(len(packed)) > oneObject:
			return fmt.Errorf("ledger %s: %w", j.key, err)
		}
	}
	seal := at.Seal(state)
	_, err = j.change(ctx, func(next *content) error {
		if w.parts != nil && w.loads != j.loads {
			return journal.ErrNotLoaded
		}
		if err := next.image.Snapshot(at, least(state)); err != nil {
			return err
		}
		next.seal, next.snapshot, next.plain, next.parts, next.image.State = seal, packed, int64(len(state)), w.parts, nil
		j.alone = j.limits.parts > 0 && len(packed) > j.limits.inlineSnapshot
		next.filed = slices.DeleteFunc(slices.Clone(next.filed), func(p part) bool { return p.Revision <= at.Revision })
		return nil
	})
	return err
}

// least is as much of a state as an image needs that does not keep it.
func least(state []byte) []byte { return state[:min(1, len(state))] }

// NewLineage implements journal.Journal.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	return j.change(ctx, func(next *content) error { return next.image.NewLineage(after) })
}

// Size implements journal.Journal.
func (j *Journal) Size() journal.Size {
	size := journal.Size{}
	if known := j.size.Load(); known != nil {
		size = *known
	}
	size.Waits = j.waits.Load()
	return size
}

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.object = nil
	return nil
}

// change writes what the journal is after a change.
func (j *Journal) change(ctx context.Context, change func(*content) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.usable(ctx)
	next := j.content
	next.image.Records = slices.Clone(next.image.Records)
	if err == nil {
		err = change(&next)
	}
	if err == nil {
		err = j.write(ctx, &next)
	}
	if err != nil {
		return journal.Head{}, fmt.Errorf("ledger %s: %w", j.key, err)
	}
	return next.image.Head, nil
}

// usable says why nothing can be written now, or nil.
func (j *Journal) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.object == nil {
		return journal.ErrNotLoaded
	}
	return nil
}

// write makes next what the Ledger says.
func (j *Journal) write(ctx context.Context, next *content) error {
	if j.object == nil {
		return journal.ErrNotLoaded
	}
	object := &unstructured.Unstructured{Object: maps.Clone(j.object.Object)}
	size, err := encode(object, next)
	if err != nil {
		return err
	}
	spend(j.paces.appends, size)
	object, err = j.swap(ctx, object, next)
	if j.object = object; err != nil {
		j.object = nil
		return err
	}
	j.content, j.fenced = *next, true
	j.size.Store(next.size(j.space()))
	return nil
}

// swap updates the object if its content is still the one that j knows. What an update that failed has
// done is found out by reading the object again: whether its last write is this one, or still the one
// before, or somebody else's. Names of writes decide, not heads: two agents may well write the same
// batch; and not resource versions: a label that somebody sets is no reason to give up.
func (j *Journal) swap(ctx context.Context, object *unstructured.Unstructured,
	next *content) (done *unstructured.Unstructured, err error) {
	err = j.persist(ctx, func() (err error) {
		done = object.DeepCopy()
		failure := j.client.Update(ctx, done)
		if failure == nil {
			return kept(object, done)
		}
		var found *content
		done, found, _, err = j.read(ctx)
		switch {
		case err != nil:
			return errors.Join(failure, err)
		case found.write == next.write:
			return kept(object, done)
		case found.write != j.content.write:
			return fmt.Errorf("%w: somebody else wrote", journal.ErrConflict)
		}
		done.Object["spec"] = object.Object["spec"]
		if err := list(done, next); err != nil {
			return err
		}
		object = done
		return failure
	})
	return done, err
}

// readOrCreate reads the object, or makes it with an empty journal.
func (j *Journal) readOrCreate(ctx context.Context) (object *unstructured.Unstructured, found *content,
	state []byte, err error) {
	err = j.persist(ctx, func() (err error) {
		if object, found, state, err = j.read(ctx); !apierrors.IsNotFound(err) {
			return err
		}
		object = newLedger(j.key)
		empty := &content{image: journal.NewImage()}
		empty.seal = empty.image.Base.Seal(nil)
		if _, err = encode(object, empty); err != nil {
			return err
		}
		if err = j.client.Create(ctx, object); err != nil {
			return err
		}
		// As the API server kept it: a schema that drops a field shows here, not at the next start.
		found, state, err = decode(object)
		return err
	})
	return object, found, state, err
}

// read returns the object as it is now, and what it says, verified as far as it goes.
func (j *Journal) read(ctx context.Context) (*unstructured.Unstructured, *content, []byte, error) {
	object := newLedger(j.key)
	if err := j.client.Get(ctx, j.key, object); err != nil {
		return nil, nil, nil, err
	}
	found, state, err := decode(object)
	return object, found, state, err
}

// persist tries again while another answer is possible, and returns the last error.
func (j *Journal) persist(ctx context.Context, try func() error) (err error) {
	waited := wait.ExponentialBackoffWithContext(ctx, j.retry, func(context.Context) (bool, error) {
		if err = try(); err != nil && !retryable(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err == nil {
		err = waited
	}
	return err
}

// retryable reports whether a repeated call may succeed. An error that no API server made is a broken
// connection, after which the outcome is unknown.
func retryable(err error) bool {
	var refused *journal.RefusedError
	var odd *partError
	if errors.As(err, &refused) || errors.As(err, &odd) || errors.Is(err, journal.ErrConflict) ||
		errors.Is(err, journal.ErrNotLoaded) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonConflict, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return true
	}
	return false
}
