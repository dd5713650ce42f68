// Package journal keeps what must not be forgotten: a durable, ordered, hash-chained list of
// batches of events, and at most one snapshot that stands for the batches before it.
//
// A journal knows nothing of what it stores: events and snapshots are opaque bytes. It promises
// three things. What Append acknowledged is there after a crash. Whoever appends must name the head
// that it decided on, so of two writers only one gets through. And what Load returns was verified from
// end to end: a journal that was damaged, cut or replaced by an older copy of itself is refused (see
// RefusedError), never repaired by silently dropping something.
//
//	base (a snapshot, or the genesis) ◀─ record ◀─ record ◀─ record = head
//
// Implementations: sqlite (a file; the broker's default), postgres (a database; a broker's too),
// kube (Ledger objects; an agent's), memory (tests). All pass the same suite, journaltest.
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
	// Lineage says which life of the journal this is: random when a journal is created, and anew
	// whenever somebody accepted that history may have been lost.
	Lineage string `json:"lineage"`
	// Revision counts events, from 0 for an empty journal, through all lineages.
	Revision uint64 `json:"revision"`
	// Hash chains everything up to here (see Next).
	Hash Hash `json:"hash"`
}

func (h Head) String() string {
	return fmt.Sprintf("revision %d of lineage %.8s (hash %x)", h.Revision, h.Lineage, h.Hash[:4])
}

// Record is a batch as it was appended: it holds the events Revision-len(Events)+1 … Revision.
type Record struct {
	Revision uint64   `json:"revision"`
	Events   [][]byte `json:"events"`
}

// Journal is one writer's access to a journal. Its methods may be called concurrently; Append waits
// for at most a short part of a running Snapshot.
type Journal interface {
	// Load verifies the journal, creating it where there is none, and replays it: onSnapshot at most
	// once and first, then onRecord for each later batch, in order. Both may keep the bytes that they
	// get but not change them, and must not call the journal. What they were told counts only once
	// Load has returned no error. Load comes before every other method, and again after an error that
	// asks for it.
	//
	// Errors: *RefusedError; an error of a callback, wrapped; others are failures to read.
	Load(ctx context.Context, onSnapshot func(Head, []byte) error, onRecord func(Record) error) (Head, error)

	// Append durably adds one batch of at least one event if the journal's head is still after, and
	// returns the new head. Once begun, a file journal ignores ctx.
	//
	// Errors after which nothing was written: ErrConflict, ErrFull, ErrInvalid, ErrNotLoaded, or that
	// of a ctx that had already ended. After any other the batch may be there or not: a file journal
	// then stays closed for good, because what a file system says after a failed fsync is worth
	// nothing, and its process must end; after kube's, Load says what happened.
	Append(ctx context.Context, after Head, events [][]byte) (Head, error)

	// Snapshot stores state, which must not be empty, as what all events up to at amount to. It
	// replaces the snapshot and the records before at. at is the head, or an earlier one that is not
	// older than the present snapshot.
	//
	// Errors: ErrConflict where at is no such head of this journal; otherwise as Append.
	Snapshot(ctx context.Context, at Head, state []byte) error

	// NewLineage begins a new lineage at after, the present head, and returns the new head. It is for
	// whoever restored a backup: events that were acknowledged may be missing, and all that was
	// derived from them elsewhere must be able to tell.
	//
	// Errors: as Append.
	NewLineage(ctx context.Context, after Head) (Head, error)

	// Size says how much of its space the journal takes. It may be called at any time, and waits for nothing.
	Size() Size

	// Close releases what the journal holds. It is not needed for durability.
	Close() error
}

// Size is what a journal takes of the space that it has, in bytes.
type Size struct {
	// Snapshot and Tail are what the snapshot and the batches after it take, as they are stored.
	Snapshot, Tail int64
	// Space is the most that a snapshot may take; 0: there is no bound.
	Space int64
	// Plain is what the snapshot and the batches after it take before they are packed, MaxPlain the
	// most that a snapshot may take then; 0: there is no bound of its own.
	Plain, MaxPlain int64
	// Waits is how many writes waited since the journal was opened, because so much had been written.
	Waits int64
}

// Use is how much of the space is taken, packed or not, from 0; 0 where there is no bound.
func (s Size) Use() (use float64) {
	if s.Space > 0 {
		use = float64(s.Snapshot+s.Tail) / float64(s.Space)
	}
	if s.MaxPlain > 0 {
		use = max(use, float64(s.Plain)/float64(s.MaxPlain))
	}
	return use
}

// String says what is scarcer: what is packed, or what it unpacks to.
func (s Size) String() string {
	if s.MaxPlain > 0 && (s.Space == 0 ||
		float64(s.Plain)/float64(s.MaxPlain) > float64(s.Snapshot+s.Tail)/float64(s.Space)) {
		return fmt.Sprintf("%d of %d KiB of its space, before it is packed", s.Plain>>10, s.MaxPlain>>10)
	}
	return fmt.Sprintf("%d of %d KiB of its space", (s.Snapshot+s.Tail)>>10, s.Space>>10)
}

// Streamer is a journal that takes a snapshot piece by piece, so that nobody need hold it whole.
type Streamer interface {
	// SnapshotFrom is Snapshot of what write writes. An error of write is returned, and nothing has changed.
	SnapshotFrom(ctx context.Context, at Head, write func(io.Writer) error) error
}

var (
	// ErrConflict: the journal's head is another than the caller believed. Whoever gets it has lost
	// the right to write, and must Load to know what happened.
	ErrConflict = errors.New("journal conflict: its head is another one")
	// ErrFull: the batch or snapshot does not fit. The text names sizes and a remedy.
	ErrFull = errors.New("journal full")
	// ErrInvalid: a batch without events, an empty event, an empty snapshot, or more than MaxBatch.
	ErrInvalid = errors.New("journal: invalid input")
	// ErrNotLoaded: Load has not succeeded since the journal was opened, closed or last failed.
	ErrNotLoaded = errors.New("journal: load it first")
)

// RefusedError says why a journal must not be used as it is. Nothing was changed: what was found is
// still there to be examined.
type RefusedError struct {
	Where  string // file or object
	Found  string // what does not verify
	Remedy string // what an operator can do
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("journal %s refused: %s; remedy: %s", e.Where, e.Found, e.Remedy)
}
