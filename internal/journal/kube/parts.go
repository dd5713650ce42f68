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
	// Parts is how many parts an agent's Ledger may have. A third is for the snapshot, a third for the
	// next snapshot while it is written, and a third for the batches since.
	Parts = 24
	// partSize is how many bytes of data are in one part. As JSON that is 1.25 MiB; etcd accepts 1.5 MiB.
	// A packed live reservation takes some 330 bytes, 160 of them for two signatures and a digest. 10,000
	// reservations take 42 % of the space.
	partSize = 960 << 10
	// inlineTail is how many bytes of events the Ledger itself holds before they are filed.
	// inlineSnapshot is the largest packed snapshot in it. Each batch writes all of the Ledger again.
	inlineTail, inlineSnapshot = 32 << 10, 64 << 10
	// mergeSize is the largest part to which later batches are added, by writing it again.
	mergeSize = 128 << 10
)

// limits are these numbers. Tests use smaller ones.
type limits struct {
	parts                                       int64
	part, inlineTail, inlineSnapshot, mergeSize int
}

// oneObject is the largest packed snapshot in a Ledger without parts.
const oneObject = MaxSize * 3 / 4

// space returns the largest packed snapshot.
func (l limits) space() int64 {
	if l.parts == 0 {
		return oneObject
	}
	return l.parts / 3 * int64(l.part)
}

// space returns the largest packed snapshot in the present state.
func (j *Journal) space() int64 {
	if j.alone {
		return oneObject
	}
	return j.limits.space()
}

// unable reports whether parts cannot be written here: a permission or a field of the CRD is missing,
// because only the agent was upgraded. The Ledger then stays in one object.
func unable(err error) bool {
	var refused *journal.RefusedError
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || errors.As(err, &refused)
}

func (j *Journal) partKey(number int64) client.ObjectKey {
	return client.ObjectKey{Namespace: j.key.Namespace, Name: fmt.Sprintf("%s-%d", j.key.Name, number)}
}

// reserve picks unused parts, the longest unused ones first, because an older Ledger may still name the
// others.
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
	return nil, fmt.Errorf("%w: of %d parts %d are free, and it needs %d: take a snapshot, or end reservations",
		journal.ErrFull, j.limits.parts, len(numbers), n)
}

// fence makes sure that this journal has written the Ledger since the last Load. A process that loaded
// the Ledger before can then no longer write it, nor name a part that this journal writes from now on.
func (j *Journal) fence(ctx context.Context) error {
	if j.fenced {
		return nil
	}
	next := j.content
	return j.write(ctx, &next)
}

// begin reserves n parts for a snapshot at a head.
func (j *Journal) begin(ctx context.Context, w *written, head journal.Head, n int) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(ctx); err != nil {
		return err
	}
	trial := j.image
	if err := trial.Snapshot(head, []byte{0}); err != nil {
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

// checkOwnership checks that the Ledger is still the one that this journal wrote. Errors: ErrConflict.
func (j *Journal) checkOwnership(ctx context.Context) error {
	_, found, _, err := j.read(ctx)
	if err == nil && found.write != j.content.write {
		err = fmt.Errorf("%w: somebody else wrote", journal.ErrConflict)
	}
	return err
}

// file moves records from the Ledger itself into a part: all but the last batch, which is new, or all if
// that one is large.
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
	if most := j.limits.parts / 3; int64(len(next.filed)) >= most { // the next snapshot needs the others
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
	p, err := j.writePart(ctx, numbers[0], data, j.checkOwnership)
	if err != nil {
		return err
	}
	p.Revision, p.Hash = end.Revision, &end.Hash
	next.filed, next.last, j.alone = append(slices.Clone(filed), p), data, false
	return nil
}

// readParts reads the parts that a Ledger names. It adds their records before those in the Ledger itself,
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

// readPart reads a part. Errors: *partError if its content is not the one that the Ledger names.
func (j *Journal) readPart(ctx context.Context, p part) (data []byte, err error) {
	err = j.persist(ctx, func() error {
		object := newLedger(j.partKey(p.Part))
		if err := j.client.Get(ctx, j.partKey(p.Part), object); err != nil {
			if apierrors.IsNotFound(err) {
				return &partError{part: p.Part, fault: "is missing"}
			}
			return err
		}
		data, err = decodePart(object)
		switch {
		case err == nil && len(data) == 0:
			return &partError{part: p.Part, fault: "shows no spec.data", remedy: applyCRDs}
		case err != nil || digest(data) != p.Digest:
			return &partError{part: p.Part, fault: "does not have the content that the Ledger names"}
		}
		return nil
	})
	return data, err
}

// partError says that a part is not the one that the Ledger names.
type partError struct {
	part   int64
	fault  string
	remedy string // empty: put it back
}

func (e *partError) refuse(key client.ObjectKey) *journal.RefusedError {
	refused := refuse(key, e)
	refused.Remedy = cmp.Or(e.remedy, refused.Remedy)
	return refused
}

func (e *partError) Error() string { return fmt.Sprintf("part %d %s", e.part, e.fault) }
