// Package kube keeps a journal in one Ledger object of a cluster: an agent's, which has no disk.
//
// The whole journal is in the object's spec, so each append replaces it, by an update that holds only
// if nobody else wrote since (compare-and-swap on resourceVersion): of two live agents one gets
// through. That the spec stays small is the caller's care: a Snapshot shortens the tail.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

	mu      sync.Mutex
	object  *unstructured.Unstructured // as last read or written; nil: Load first
	content                            // what it says
}

var _ journal.Journal = (*Journal)(nil)

// New returns the journal in the Ledger named key; the first Load makes the object, but not its
// namespace. The client must read from the API server, not from a cache, for Load to see the latest.
func New(client client.Client, key client.ObjectKey) *Journal {
	return &Journal{client: client, key: key,
		retry: wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}}
}

// Load implements journal.Journal.
func (j *Journal) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.object = nil
	object, found, err := j.readOrCreate(ctx)
	if err == nil {
		err = found.image.Replay(onSnapshot, onRecord)
	}
	if err != nil {
		return journal.Head{}, fmt.Errorf("load ledger %s: %w", j.key, err)
	}
	j.object, j.content = object, *found
	return j.image.Head, nil
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	return j.change(ctx, func(image *journal.Image) error { return image.Append(after, events) })
}

// Snapshot implements journal.Journal.
func (j *Journal) Snapshot(ctx context.Context, at journal.Head, state []byte) error {
	_, err := j.change(ctx, func(image *journal.Image) error { return image.Snapshot(at, state) })
	return err
}

// NewLineage implements journal.Journal.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	return j.change(ctx, func(image *journal.Image) error { return image.NewLineage(after) })
}

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.object = nil
	return nil
}

// change writes what the journal is after a change. One after which the snapshot is the same does not pack it again: that takes longer than
// all else.
func (j *Journal) change(ctx context.Context, change func(*journal.Image) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return journal.Head{}, err
	}
	if j.object == nil {
		return journal.Head{}, journal.ErrNotLoaded
	}
	next, object := j.image, j.object.DeepCopy()
	next.Records = slices.Clone(next.Records)
	err := change(&next)
	var made content
	packed := j.packed
	if !bytes.Equal(next.State, j.image.State) {
		packed = nil
	}
	if err == nil {
		made, err = encode(object, next, packed)
	}
	if err == nil {
		if object, err = j.swap(ctx, object, made.write); err != nil {
			j.object = nil
		}
	}
	if err != nil {
		return journal.Head{}, fmt.Errorf("ledger %s: %w", j.key, err)
	}
	j.object, j.content = object, made
	return next.Head, nil
}

// swap updates the object if its content is still the one that j knows. What an update that failed has
// done is found out by reading the object again: whether its last write is this one, or still the one
// before, or somebody else's. Names of writes decide, not heads: two agents may well write the same
// batch; and not resource versions: a label that somebody sets is no reason to give up.
func (j *Journal) swap(ctx context.Context, object *unstructured.Unstructured, write string) (done *unstructured.Unstructured, err error) {
	err = j.persist(ctx, func() (err error) {
		done = object.DeepCopy()
		failure := j.client.Update(ctx, done)
		if failure == nil {
			return nil
		}
		var found *content
		done, found, err = j.read(ctx)
		switch {
		case err != nil:
			return errors.Join(failure, err)
		case found.write == write:
			return nil
		case found.write != j.write:
			return fmt.Errorf("%w: somebody else wrote", journal.ErrConflict)
		}
		done.Object["spec"] = object.Object["spec"]
		object = done
		return failure
	})
	return done, err
}

// readOrCreate reads the object, or makes it with an empty journal.
func (j *Journal) readOrCreate(ctx context.Context) (object *unstructured.Unstructured, found *content, err error) {
	err = j.persist(ctx, func() (err error) {
		if object, found, err = j.read(ctx); !apierrors.IsNotFound(err) {
			return err
		}
		object = newLedger(j.key)
		if _, err = encode(object, journal.NewImage(), nil); err != nil {
			return err
		}
		if err = j.client.Create(ctx, object); err != nil {
			return err
		}
		// As the API server kept it: a schema that drops a field shows here, not at the next start.
		found, err = decode(object)
		return err
	})
	return object, found, err
}

// read returns the object as it is now, and its content verified.
func (j *Journal) read(ctx context.Context) (*unstructured.Unstructured, *content, error) {
	object := newLedger(j.key)
	if err := j.client.Get(ctx, j.key, object); err != nil {
		return nil, nil, err
	}
	found, err := decode(object)
	return object, found, err
}

// persist tries again while another answer is possible, and returns the last error.
func (j *Journal) persist(ctx context.Context, try func() error) (err error) {
	waited := wait.ExponentialBackoffWithContext(ctx, j.retry, func(context.Context) (bool, error) {
		if err = try(); err != nil && !passing(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err == nil {
		err = waited
	}
	return err
}

// passing reports that err need not be the last word. An error that no API server made is a broken
// connection, after which anything may be the case.
func passing(err error) bool {
	var refused *journal.RefusedError
	if errors.As(err, &refused) || errors.Is(err, journal.ErrConflict) {
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
