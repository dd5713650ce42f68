package kube

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Limits of the parts of a Ledger.
const (
	// Parts is how many objects an agent's Ledger may have besides its own. A third holds the
	// snapshot, a third the next one while it is written, and a third the batches since.
	Parts = 24
	// partSize is how many bytes of data are in one part: as JSON 1.25 MiB, of the 1.5 MiB that
	// etcd takes. A live reservation takes some 330, packed, of which its two signatures and a
	// digest are 160: 10,000 of them take 42 % of the space.
	partSize = 960 << 10
	// inlineTail is how many bytes of events the Ledger itself holds before they are filed,
	// inlineSnapshot how large a packed snapshot in it may be: all of it is written with each
	// batch.
	inlineTail, inlineSnapshot = 32 << 10, 64 << 10
	// mergeSize is up to which size a part with batches is written again with those that follow.
	mergeSize = 128 << 10
)

// limits are these numbers; tests have smaller ones.
type limits struct {
	parts                                       int64
	part, inlineTail, inlineSnapshot, mergeSize int
}

// oneObject is how large a packed snapshot may be in the Ledger itself.
const oneObject = MaxSize * 3 / 4

// space is how large a snapshot may be.
func (l limits) space() int64 {
	if l.parts == 0 {
		return oneObject
	}
	return l.parts / 3 * int64(l.part)
}

// space is how large a snapshot may be as things are.
func (j *Journal) space() int64 {
	if j.alone {
		return oneObject
	}
	return j.limits.space()
}

// unable says that parts cannot be written here, because a right is missing, or a field of the CRD,
// as both are where only the agent was brought up to date. A Ledger then goes on in one object.
func unable(err error) bool {
	var refused *journal.RefusedError
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || errors.As(err, &refused)
}

func (j *Journal) partKey(number int64) client.ObjectKey {
	return client.ObjectKey{Namespace: j.key.Namespace, Name: fmt.Sprintf("%s-%d", j.key.Name, number)}
}

// reserve picks parts that nothing needs, those first that were not used for the longest time: an
// older Ledger may still name them.
func (j *Journal) reserve(n int) (numbers []int64, err error) {
	for step := range j.limits.parts {
		number := (j.next + step) % j.limits.parts
		if !j.used(number) && !j.taken[number] {
			if numbers = append(numbers, number); len(numbers) == n {
				j.next = number + 1
				return numbers, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: of %d parts %d are free, and it needs %d: take a snapshot, or end what takes the space",
		journal.ErrFull, j.limits.parts, len(numbers), n)
}

// fence makes sure that since the last Load this journal has written the Ledger: whoever had loaded
// it before cannot write it any more, and so cannot name a part that this journal writes from now
// on.
func (j *Journal) fence(ctx context.Context) error {
	if j.fenced {
		return nil
	}
	next := j.content
	return j.write(ctx, &next)
}

// writePart has an object hold data. Nobody reads it before the Ledger names it. mine says whether
// the Ledger is still as this journal wrote it: what nothing needs may otherwise be what somebody
// else's Ledger names.
//
// Who writes a part last is certain: each write holds only if nobody has written it since this
// journal did or, the first time, since it saw that the Ledger was still its own.
func (j *Journal) writePart(ctx context.Context, number int64, data []byte, mine func(context.Context) error) (part,
	error) {
	p := part{Part: number, Digest: digest(data), Size: int64(len(data))}
	err := j.persist(ctx, func() error {
		object := newLedger(j.partKey(number))
		j.versions.Lock()
		version := j.versions.of[number]
		delete(j.versions.of, number)
		j.versions.Unlock()
		if version == "" {
			err := j.client.Get(ctx, j.partKey(number), object)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if err := mine(ctx); err != nil {
				return err
			}
			if err != nil {
				object = newLedger(j.partKey(number))
			}
		} else {
			object.SetResourceVersion(version)
		}
		if err := encodePart(object, data); err != nil {
			return err
		}
		var err error
		if object.GetResourceVersion() == "" {
			err = j.client.Create(ctx, object)
		} else {
			err = j.client.Update(ctx, object)
		}
		if err != nil {
			return err
		}
		if data, err := decodePart(object); err != nil || digest(data) != p.Digest {
			return notKept(j.partKey(number), "data")
		}
		j.versions.Lock()
		j.versions.of[number] = object.GetResourceVersion()
		j.versions.Unlock()
		return nil
	})
	if err != nil {
		err = fmt.Errorf("part %d: %w", number, err)
	}
	return p, err
}

// written are the parts that a snapshot is written to. Nobody else takes them before they are released.
type written struct {
	numbers []int64
	parts   []part
	loads   int // they are good for as long as nothing is loaded again
}

// writeParts writes a packed snapshot, in pieces. Appends go on meanwhile. If there is no error,
// release what is in w.
func (j *Journal) writeParts(ctx context.Context, w *written, at journal.Head, packed []byte) error {
	if space := j.limits.space(); int64(len(packed)) > space {
		return fmt.Errorf("%w: its snapshot takes %d bytes, of at most %d: end what takes the space", journal.ErrFull,
			len(packed), space)
	}
	if err := j.makeParts(ctx); err != nil {
		return err
	}
	pieces := slices.Collect(slices.Chunk(packed, j.limits.part))
	if err := j.begin(ctx, w, at, len(pieces)); err != nil {
		return err
	}
	mine := func(ctx context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.object == nil || w.loads != j.loads {
			return journal.ErrNotLoaded
		}
		return j.mine(ctx)
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

// makeParts makes all parts that do not exist yet, each of one byte, so that nothing stops the
// Ledger later that lets no further object be made, such as a quota. It is done once after each
// Load. An error counts only as long as the snapshot is not in parts: it can stay in one object.
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

// makePart makes a part. It holds one byte because an API server takes no empty string for base64.
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

// begin reserves n parts for a snapshot at a head.
func (j *Journal) begin(ctx context.Context, w *written, at journal.Head, n int) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(ctx); err != nil {
		return err
	}
	trial := j.image
	if err := trial.Snapshot(at, []byte{0}); err != nil {
		return err
	}
	if err := j.fence(ctx); err != nil {
		return err
	}
	if w.numbers, err = j.reserve(n); err != nil {
		return err
	}
	w.loads = j.loads
	for _, number := range w.numbers {
		j.taken[number] = true
	}
	return nil
}

func (j *Journal) release(w *written) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if w.loads == j.loads {
		for _, number := range w.numbers {
			delete(j.taken, number)
		}
	}
}

// mine says whether the Ledger is as this journal last wrote it. Errors: ErrConflict.
func (j *Journal) mine(ctx context.Context) error {
	_, found, _, err := j.read(ctx)
	if err == nil && found.write != j.content.write {
		err = fmt.Errorf("%w: somebody else wrote", journal.ErrConflict)
	}
	return err
}

// file moves records from the Ledger itself into a part: those before the last batch, which is new,
// or all where that is large.
func (j *Journal) file(ctx context.Context, next *content) error {
	tail := next.tail()
	if n := len(tail) - 1; weigh(tail[n:]) <= int64(j.limits.inlineTail) {
		tail = tail[:n]
	}
	if len(tail) == 0 {
		return nil
	}
	data, err := packRecords(tail)
	if err != nil {
		return err
	}
	filed := next.filed
	if n := len(filed) - 1; n >= 0 && len(next.last) <= j.limits.mergeSize && len(next.last)+len(data) <= j.limits.part {
		filed, data = filed[:n], slices.Concat(next.last, data)
	}
	if len(data) > j.limits.part {
		return fmt.Errorf("%w: a batch takes %d bytes, packed, of at most %d", journal.ErrFull, len(data), j.limits.part)
	}
	end, err := next.image.At(tail[len(tail)-1].Revision)
	if err != nil {
		return err
	}
	if most := j.limits.parts / 3; int64(len(next.filed)) >= most { // else the next snapshot could find none
		return fmt.Errorf("%w: batches take %d parts, of at most %d: take a snapshot", journal.ErrFull, len(next.filed), most)
	}
	if err := j.fence(ctx); err != nil {
		return err
	}
	numbers, err := j.reserve(1)
	if err != nil {
		return err
	}
	spend(j.paces.appends, base64.StdEncoding.EncodedLen(len(data)))
	p, err := j.writePart(ctx, numbers[0], data, j.mine)
	if err != nil {
		return err
	}
	p.Revision, p.Hash = end.Revision, &end.Hash
	next.filed, next.last, j.alone = append(slices.Clone(filed), p), data, false
	return nil
}

// readParts reads the parts that a Ledger names. It puts their records before those in the Ledger itself,
// and returns the state.
func (j *Journal) readParts(ctx context.Context, c *content, state []byte) ([]byte, error) {
	if len(c.parts) > 0 {
		var packed []byte
		for _, p := range c.parts {
			data, err := j.readPart(ctx, p)
			if err != nil {
				return nil, err
			}
			packed = append(packed, data...)
		}
		var err error
		if state, err = unpack(packed, MaxState); err != nil {
			return nil, refuse(j.key, fmt.Errorf("spec.parts: %w", err))
		}
		if c.image.Base.Seal(state) != c.seal {
			return nil, refuse(j.key, errors.New("spec.base and spec.parts do not match spec.seal"))
		}
	}
	var filed []journal.Record
	for _, p := range c.filed {
		data, err := j.readPart(ctx, p)
		if err != nil {
			return nil, err
		}
		records, err := unpackRecords(data)
		if err != nil {
			return nil, refuse(j.partKey(p.Part), err)
		}
		filed, c.last = append(filed, records...), data
	}
	filed = slices.DeleteFunc(filed, func(r journal.Record) bool { return r.Revision <= c.image.Base.Revision })
	c.image.Records = append(filed, c.image.Records...)
	if err := c.image.Verify(); err != nil {
		return nil, refuse(j.key, err)
	}
	return state, nil
}

// readPart reads what a part must hold. Errors: *partError where it holds something else.
func (j *Journal) readPart(ctx context.Context, p part) (data []byte, err error) {
	err = j.persist(ctx, func() error {
		object := newLedger(j.partKey(p.Part))
		if err := j.client.Get(ctx, j.partKey(p.Part), object); err != nil {
			if apierrors.IsNotFound(err) {
				return &partError{part: p.Part, is: "is missing"}
			}
			return err
		}
		data, err = decodePart(object)
		switch {
		case err == nil && len(data) == 0:
			return &partError{part: p.Part, is: "shows no spec.data", remedy: applyCRDs}
		case err != nil || digest(data) != p.Digest:
			return &partError{part: p.Part, is: "does not hold what the Ledger names"}
		}
		return nil
	})
	return data, err
}

// partError is a part that is not what the Ledger says.
type partError struct {
	part   int64
	is     string
	remedy string // empty: to put it back
}

func (e *partError) refuse(key client.ObjectKey) *journal.RefusedError {
	refused := refuse(key, e)
	refused.Remedy = cmp.Or(e.remedy, refused.Remedy)
	return refused
}

func (e *partError) Error() string { return fmt.Sprintf("part %d %s", e.part, e.is) }
