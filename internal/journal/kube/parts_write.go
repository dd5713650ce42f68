package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bourse-dev/bourse/internal/journal"
)

// writePart makes data the content of a part. Nobody reads it before the Ledger names it. mine checks that
// the Ledger is still the one that this journal wrote. Otherwise another process's Ledger may name the part.
//
// No write of another process is overwritten: each write succeeds only if nobody wrote the part since
// it was read, and mine succeeded after that.
func (j *Journal) writePart(
	ctx context.Context, number int64, data []byte, mine func(context.Context) error,
) (part, error) {
	p := part{Part: number, Digest: digest(data), Size: int64(len(data))}
	err := j.persist(ctx, func() error {
		object := newLedger(j.partKey(number))
		write := func() error { return j.client.Update(ctx, object) }
		switch err := j.client.Get(ctx, j.partKey(number), object); {
		case apierrors.IsNotFound(err):
			object = newLedger(j.partKey(number))
			write = func() error { return j.client.Create(ctx, object) }
		case err != nil:
			return err
		}
		if err := mine(ctx); err != nil {
			return err
		}
		if err := encodePart(object, data); err != nil {
			return err
		}
		if err := write(); err != nil {
			return err
		}
		if data, err := decodePart(object); err != nil || digest(data) != p.Digest {
			return notKept(j.partKey(number), "data")
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("part %d: %w", number, err)
	}
	return p, err
}

// written are the parts of a snapshot that is being written. Nobody else takes them before release.
type written struct {
	numbers []int64
	parts   []part
	loads   int // they are valid until the next Load
}

// writeParts writes a packed snapshot in pieces. Appends go on meanwhile. Without an error, the caller
// must release w.
func (j *Journal) writeParts(ctx context.Context, w *written, head journal.Head, packed []byte) error {
	if space := j.limits.space(); int64(len(packed)) > space {
		return fmt.Errorf("%w: its snapshot takes %d bytes, of at most %d: end reservations", journal.ErrFull,
			len(packed), space)
	}
	if err := j.makeParts(ctx); err != nil {
		return err
	}
	pieces := slices.Collect(slices.Chunk(packed, j.limits.part))
	if err := j.begin(ctx, w, head, len(pieces)); err != nil {
		return err
	}
	mine := func(ctx context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.object == nil || w.loads != j.loads {
			return journal.ErrNotLoaded
		}
		return j.checkOwnership(ctx)
	}
	for i, piece := range pieces {
		err := j.await(ctx, j.paces.snapshots)
		var p part
		if err == nil {
			spend(j.paces.snapshots, base64.StdEncoding.EncodedLen(len(piece)))
			p, err = j.writePart(ctx, w.numbers[i], piece, mine)
		}
		if err != nil {
			j.release(w)
			return err
		}
		w.parts = append(w.parts, p)
	}
	return nil
}

// makeParts creates all missing parts with one byte each, so that a quota on objects cannot stop the Ledger
// later. It does so once after each Load. An error counts only while the snapshot is not in parts, because
// it can then stay in one object.
func (j *Journal) makeParts(ctx context.Context) error {
	j.mu.Lock()
	loads, made, inParts := j.loads, j.made, len(j.content.parts) > 0
	j.mu.Unlock()
	if made {
		return nil
	}
	for number := range min(j.limits.parts, Parts) {
		err := j.makePart(ctx, number)
		if err != nil && !inParts {
			return fmt.Errorf("part %d: %w", number, err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.made = loads == j.loads
	return nil
}

// makePart creates a part. It has one byte, because an API server refuses an empty string as base64.
func (j *Journal) makePart(ctx context.Context, number int64) error {
	return j.persist(ctx, func() error {
		object := newLedger(j.partKey(number))
		if err := encodePart(object, []byte{0}); err != nil {
			return err
		}
		if err := j.client.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}
