package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bourse-dev/bourse/internal/journal"
)

// change writes the content after a change.
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

// usable returns the reason why nothing can be written now, or nil.
func (j *Journal) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.object == nil {
		return journal.ErrNotLoaded
	}
	return nil
}

// write makes next the content of the Ledger.
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

// swap updates the object if its content is still the one that j knows. After a failed update it reads the
// object again: its last write is this one, the one before, or somebody else's. The names of writes decide.
// Heads do not, because two agents may write the same batch. Resource versions do not, because a new label
// is no reason to give up.
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

// readOrCreate reads the object, or creates it with an empty journal.
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
		// Decode the API server's answer: a schema that drops a field shows now, and not at the next start.
		found, state, err = decode(object)
		return err
	})
	return object, found, state, err
}

// read returns the object and its content, verified without the parts.
func (j *Journal) read(ctx context.Context) (*unstructured.Unstructured, *content, []byte, error) {
	object := newLedger(j.key)
	if err := j.client.Get(ctx, j.key, object); err != nil {
		return nil, nil, nil, err
	}
	found, state, err := decode(object)
	return object, found, state, err
}

// persist repeats try while another result is possible, and returns the last error.
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
