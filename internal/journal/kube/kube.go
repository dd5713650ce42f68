// Package kube keeps a journal in Ledger objects of a cluster: an agent's, which has no disk.
//
// One object, the Ledger itself, decides. Each append replaces it, by an update that succeeds only if
// nobody else wrote since (compare-and-swap on resourceVersion). So only one of two live agents succeeds.
// A small journal is all in this object. A larger one has its snapshot and its older batches in further
// objects, its parts. A part is written before the Ledger names it with its hash, and is not written again
// while it is named. So an agent that is killed between two writes loses nothing.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	content                            // of the object
	loads   int                        // the number of loads
	fenced  bool                       // the Ledger's last write is by this journal
	next    int64                      // the part to be used next
	made    bool                       // all parts exist
	alone   bool                       // parts could not be written: all of it must fit into the Ledger itself
}

var _ journal.Journal = (*Journal)(nil)

// New returns the journal in the Ledger named key and in at most that many parts. 0 parts: all of it is in
// one object. The first Load creates the object, but not its namespace. The client must read from the API
// server, because a cache may be behind.
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
	j.size.Store(found.size(j.space()))
	return j.image.Head, nil
}

// readAll reads the Ledger with its parts. If a part is not the one that the Ledger names, somebody may
// just have written another Ledger, and readAll reads again.
func (j *Journal) readAll(ctx context.Context) (*unstructured.Unstructured, *content, []byte, error) {
	for {
		object, found, state, err := j.readOrCreate(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		state, err = j.readParts(ctx, found, state)
		odd, ok := errors.AsType[*partError](err)
		if !ok {
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
		return nil // records that are not filed stay in the Ledger, as long as there is space
	})
}

// Snapshot implements journal.Journal.
func (j *Journal) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	var buffer bytes.Buffer
	if err := write(&buffer); err != nil {
		return err
	}
	state := buffer.Bytes()
	if len(state) > MaxState {
		return fmt.Errorf("ledger %s: %w: a state of %d bytes, of at most %d: end reservations", j.key,
			journal.ErrFull, len(state), MaxState)
	}
	packed, err := pack(state)
	if err != nil {
		return err
	}
	var w written
	if j.limits.parts > 0 && len(packed) > j.limits.inlineSnapshot {
		switch err := j.writeParts(ctx, &w, head, packed); {
		case err == nil:
			defer j.release(&w)
			packed = nil
		case !unable(err) || int64(len(packed)) > oneObject:
			return fmt.Errorf("ledger %s: %w", j.key, err)
		}
	}
	seal := head.Seal(state)
	_, err = j.change(ctx, func(next *content) error {
		if w.parts != nil && w.loads != j.loads {
			return journal.ErrNotLoaded
		}
		if err := next.image.Snapshot(head, least(state)); err != nil {
			return err
		}
		next.seal, next.snapshot, next.plain, next.parts, next.image.State = seal, packed, int64(len(state)), w.parts, nil
		j.alone = j.limits.parts > 0 && len(packed) > j.limits.inlineSnapshot
		next.filed = slices.DeleteFunc(slices.Clone(next.filed), func(p part) bool { return p.Revision <= head.Revision })
		return nil
	})
	return err
}

// least returns the shortest state that an image accepts. The image does not keep the state.
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
