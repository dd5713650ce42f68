// Package sqlite keeps a journal in an SQLite file: the broker's default.
//
// A journal at PATH consists of PATH, PATH-wal (while it is open, and after a crash) and PATH.head,
// which guards against what SQLite cannot notice itself (see headFile). An append is one INSERT in
// WAL mode with synchronous=FULL: durable when it returns.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Journal is a journal.Journal in a file. One process has it at a time: the lock is SQLite's own and
// ends with the process.
type Journal struct {
	path string

	// whole is held by everything but Append, and longer than mu: a snapshot is written in pieces,
	// between which appends go on.
	whole sync.Mutex

	appending sync.Mutex // guards what follows; it comes before mu
	encoded   []byte     // the last batch: the next one takes its memory

	mu         sync.Mutex // guards what follows
	db         *database  // nil until loaded
	mark       *headFile
	base, head journal.Head
	failed     error // sticks: see journal.Journal on outcomes that are not known
}

var _ journal.Journal = (*Journal)(nil)

// New returns the journal at path. Its folder must exist; the first Load makes the files.
func New(path string) *Journal { return &Journal{path: path} }

// mostEncoded is how many bytes of memory a journal keeps for the next batch.
const mostEncoded = 1 << 20

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	j.appending.Lock()
	defer j.appending.Unlock()
	encoded, err := journal.Encode(j.encoded[:0], events)
	if err != nil {
		return journal.Head{}, err
	}
	if cap(encoded) <= mostEncoded {
		j.encoded = encoded // SQLite copies it
	}
	return j.advance(ctx, after, after.Next(len(events), encoded), func(ctx context.Context, next journal.Head) error {
		_, err := j.db.insert.ExecContext(ctx, int64(next.Revision), next.Hash[:], encoded)
		return err
	})
}

// NewLineage implements journal.Journal. A crash in the middle may leave a journal that is refused:
// its caller accepts a loss anyhow, and does so again.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	next, err := j.advance(ctx, after, after.Renew(), func(ctx context.Context, next journal.Head) error {
		j.base.Lineage = next.Lineage
		_, err := j.db.ExecContext(ctx, "UPDATE base SET lineage = ?", next.Lineage)
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return next, j.write(context.WithoutCancel(ctx), func(context.Context) error { return j.mark.Sync() })
}

// advance moves the head: first by committing, then by marking it.
func (j *Journal) advance(ctx context.Context, after, next journal.Head, commit func(context.Context,
	journal.Head) error) (journal.Head, error) {
	err := j.write(ctx, func(ctx context.Context) error {
		if after != j.head {
			return fmt.Errorf("write after %v, but the head is %v: %w", after, j.head, journal.ErrConflict)
		}
		if err := commit(ctx, next); err != nil {
			return err
		}
		j.head = next
		return j.mark.write(next)
	})
	if err != nil {
		return journal.Head{}, err
	}
	return next, nil
}

// write makes one short change. ctx counts only until it begins: nobody would know the outcome of a
// commit that was interrupted.
func (j *Journal) write(ctx context.Context, change func(context.Context) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := errors.Join(j.failed, ctx.Err()); err != nil {
		return err
	}
	if j.db == nil {
		return journal.ErrNotLoaded
	}
	err := change(context.WithoutCancel(ctx))
	if err != nil && !errors.Is(err, journal.ErrConflict) {
		j.failed = fmt.Errorf("journal %s failed, end the process: %w", j.path, err)
		return j.failed
	}
	return err
}

// Size implements journal.Journal: there is no bound.
func (j *Journal) Size() journal.Size { return journal.Size{} }

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.close()
}

func (j *Journal) close() (err error) {
	if j.mark != nil {
		err = j.mark.Close()
	}
	if j.db != nil {
		err = errors.Join(err, j.db.close())
	}
	j.db, j.mark = nil, nil
	return err
}
