// Package journal keeps what must not be forgotten: a durable, ordered, hash-chained list of
// batches of events, and at most one snapshot that stands for the batches before it.
//
// To a journal, events and snapshots are opaque bytes. It promises three things:
//
//   - Acknowledged events survive a crash.
//
//   - A writer names the head that it decided on, so that only one of two writers succeeds.
//
//   - Load verifies everything. It refuses a journal that was damaged, cut or replaced by an older copy
//     (see RefusedError). It never repairs a journal by dropping something.
//
//     base (a snapshot, or the genesis) ◀─ record ◀─ record ◀─ record = head
//
// Implementations: sqlite (a file, the broker's default), postgres (a database, for brokers), kube
// (Ledger objects, for agents), memorytest (memory, for tests). All pass the same suite, journaltest.
package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Head names a point between two batches, usually the end of a journal. Two heads are the same point
// exactly when they are ==.
type Head struct {
	// Lineage names one life of the journal. It is random, and changes when an operator accepts that
	// history may have been lost.
	Lineage string `json:"lineage"`
	// Revision counts the events, from 0 for an empty journal, over all lineages.
	Revision uint64 `json:"revision"`
	// Hash is the hash of everything up to here: see Next.
	Hash Hash `json:"hash"`
}

func (h Head) String() string {
	return fmt.Sprintf("revision %d of lineage %.8s (hash %x)", h.Revision, h.Lineage, h.Hash[:4])
}

// Record is an appended batch: the events Revision-len(Events)+1 to Revision.
type Record struct {
	Revision uint64   `json:"revision"`
	Events   [][]byte `json:"events"`
}

// Journal is one writer's access to a journal. Its methods may be called concurrently. Append waits
// for a short part of a running Snapshot at most.
type Journal interface {
	// Load verifies the journal and replays it. It calls onSnapshot at most once, first, and then
	// onRecord for each later batch, in order. Both may keep the bytes but not change them, and must not
	// call the journal. The calls count only if Load returns no error. Load creates a missing journal.
	// Call it before every other method, and again after an error that requires it.
	//
	// Errors: *RefusedError; an error of a callback, wrapped. Others are failures to read.
	Load(ctx context.Context, onSnapshot func(Head, []byte) error, onRecord func(Record) error) (Head, error)

	// Append durably adds one batch of at least one event if the journal's head is still after, and
	// returns the new head. Once begun, a file journal ignores ctx.
	//
	// Nothing was written after ErrConflict, ErrFull, ErrInvalid, ErrNotLoaded, or the error of a ctx that
	// had already ended. After any other error the batch may be there or not. A file journal then stays
	// closed, and its process must end: a file system gives no reliable answer after a failed fsync.
	// After an error of another journal, Load finds out what happened.
	Append(ctx context.Context, after Head, events [][]byte) (Head, error)

	// Snapshot stores the state that write writes, which must not be empty, as the sum of all events up
	// to head. It replaces the snapshot and the records before head. head is the present head, or an
	// earlier one that is not older than the present snapshot.
	//
	// Errors: ErrConflict if the journal has no such head; write's, after which nothing has changed;
	// otherwise as Append.
	Snapshot(ctx context.Context, head Head, write func(io.Writer) error) error

	// NewLineage begins a new lineage at after, the present head, and returns the new head. Call it after
	// a restore from a backup. Acknowledged events may then be missing, and everything that was derived
	// from them elsewhere must notice it.
	//
	// Errors: as Append.
	NewLineage(ctx context.Context, after Head) (Head, error)

	// Size returns how much of its space the journal takes. Call it at any time: it never waits.
	Size() Size

	// Close releases the journal's resources. Durability does not need it.
	Close() error
}

// Size is how many bytes of its space a journal takes.
type Size struct {
	// Snapshot and Tail are the stored sizes of the snapshot and of the batches after it.
	Snapshot, Tail int64
	// Space is the largest stored snapshot. 0: no bound.
	Space int64
	// Plain is the size of the snapshot and the batches after it before they are packed. MaxPlain is
	// the largest snapshot before it is packed. 0: no such bound.
	Plain, MaxPlain int64
	// Waits is how many writes waited since the journal was opened, because of the limit on its write rate.
	Waits int64
}

// Use returns the used share of the space, packed or not, from 0 on. It is 0 without a bound.
func (s Size) Use() (use float64) {
	if s.Space > 0 {
		use = float64(s.Snapshot+s.Tail) / float64(s.Space)
	}
	if s.MaxPlain > 0 {
		use = max(use, float64(s.Plain)/float64(s.MaxPlain))
	}
	return use
}

// String shows the scarcer of the two: the packed size, or the size before.
func (s Size) String() string {
	if s.MaxPlain > 0 && (s.Space == 0 ||
		float64(s.Plain)/float64(s.MaxPlain) > float64(s.Snapshot+s.Tail)/float64(s.Space)) {
		return fmt.Sprintf("%d of %d KiB of its space, before it is packed", s.Plain>>10, s.MaxPlain>>10)
	}
	return fmt.Sprintf("%d of %d KiB of its space", (s.Snapshot+s.Tail)>>10, s.Space>>10)
}

// State returns a function for Snapshot that writes a state which is in memory.
func State(state []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(state)
		return err
	}
}

var (
	// ErrConflict: the journal has another head than the caller believed. The caller may no longer
	// write. Load finds out what happened.
	ErrConflict = errors.New("journal conflict: it has another head")
	// ErrFull: the batch or snapshot does not fit. The error names sizes and a remedy.
	ErrFull = errors.New("journal full")
	// ErrInvalid: a batch without events, an empty event, an empty snapshot, or more than MaxBatch.
	ErrInvalid = errors.New("journal: invalid input")
	// ErrNotLoaded: Load has not succeeded since the journal was opened, closed or last failed.
	ErrNotLoaded = errors.New("journal: load it first")
)

// RefusedError says why a journal must not be used in its present state. Nothing was changed: an
// operator can examine it.
type RefusedError struct {
	Where  string // file or object
	Found  string // what does not verify
	Remedy string // what an operator can do
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("journal %s refused: %s; remedy: %s", e.Where, e.Found, e.Remedy)
}
