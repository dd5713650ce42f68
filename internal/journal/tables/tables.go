// Package tables is what the journals in SQL databases have in common: how batches and snapshots are
// written to tables, and how they are read and verified. Packages sqlite and postgres open the
// database, and keep other processes from writing to it.
//
// The state of a snapshot is in parts. Those from first to last are the base's. Other parts are left
// over, and so are records up to the base's revision.
package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Database is a database that is open for writing, on one connection. Each change is durable when its
// method returns.
type Database interface {
	Queryer
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Append stores a batch that ends at next.
	Append(ctx context.Context, after, next journal.Head, encoded []byte) error
	// NewLineage gives the journal the lineage of next.
	NewLineage(ctx context.Context, after, next journal.Head) error
	// AddPart stores a part of a state. It counts only once a Snapshot names it.
	AddPart(ctx context.Context, part int64, state []byte) error
	// Rebase makes a snapshot the base. head is the present head, or the first of a journal that begins
	// with a snapshot.
	Rebase(ctx context.Context, to Snapshot, head journal.Head) error
	Close() error
}

// Queryer reads a database.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Snapshot is a stored state: the parts from First to Last, and the seal of all of them.
type Snapshot struct {
	At          journal.Head
	First, Last int64
	Seal        journal.Hash
}

// Queries are the queries that differ between databases by the names of tables only.
type Queries struct {
	Hash     string // of the record that ends at revision $1
	LastPart string // that is stored, or belongs to the base
	Size     string // of the parts $1 to $2 together
	State    string // the parts $1 to $2
	Records  string // after revision $1: revision, hash, events
	Sweeps   []Sweep
}

// Sweep deletes at most Limit rows ($1) that the base does not need.
type Sweep struct {
	Query string
	Limit int64
}

// Journal is a journal.Journal in a database.
type Journal struct {
	Options

	// whole is held by everything but Append, and longer than mu: a snapshot is written in pieces,
	// between which appends go on.
	whole sync.Mutex

	appending sync.Mutex // guards encoded; it comes before mu
	encoded   []byte     // the last batch: the next one takes its memory

	mu         sync.Mutex // guards what follows
	db         Database   // nil until loaded
	base, head journal.Head
	failed     error // with FailsForGood
}

// Options are those of a database.
type Options struct {
	Queries
	// Where names the database in errors.
	Where string
	// PartSize is the size of a part, in bytes: short enough for an append to wait for it.
	PartSize int
	// Patience is how long one change may take. 0: no limit.
	Patience time.Duration
	// FailsForGood: after a change with an unknown outcome the process must end. Default: the journal must
	// be loaded again.
	FailsForGood bool
}

// maxEncoded is how many bytes of memory a journal keeps for the next batch.
const maxEncoded = 1 << 20

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	j.appending.Lock()
	defer j.appending.Unlock()
	encoded, err := journal.Encode(j.encoded[:0], events)
	if err != nil {
		return journal.Head{}, err
	}
	if cap(encoded) <= maxEncoded {
		j.encoded = encoded // no database keeps it
	}
	next := after.Next(len(events), encoded)
	return j.advance(ctx, after, next, func(ctx context.Context) error {
		return j.db.Append(ctx, after, next, encoded)
	})
}

// NewLineage implements journal.Journal. If the process ends in the middle, the journal may be refused.
// The caller accepts a loss anyhow, and does so again.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	next := after.Renew()
	return j.advance(ctx, after, next, func(ctx context.Context) error {
		return j.db.NewLineage(ctx, after, next)
	})
}

// advance moves the head.
func (j *Journal) advance(ctx context.Context, after, next journal.Head,
	commit func(context.Context) error) (journal.Head, error) {
	err := j.write(ctx, func(ctx context.Context) error {
		if after != j.head {
			return fmt.Errorf("write after %v, but the head is %v: %w", after, j.head, journal.ErrConflict)
		}
		if err := commit(ctx); err != nil {
			return err
		}
		j.head, j.base.Lineage = next, next.Lineage
		return nil
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
	ctx = context.WithoutCancel(ctx)
	if j.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.Patience)
		defer cancel()
	}
	switch err := change(ctx); {
	case err == nil || errors.Is(err, journal.ErrConflict):
		return err
	case j.FailsForGood:
		j.failed = fmt.Errorf("journal %s failed, end the process: %w", j.Where, err)
		return j.failed
	default:
		_ = j.disconnect()
		return fmt.Errorf("journal %s: %w", j.Where, err)
	}
}

// Open replaces the database by the one that load opens and verifies. Errors: load's.
func (j *Journal) Open(load func() (db Database, base, head journal.Head, err error)) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := errors.Join(j.failed, j.disconnect()); err != nil {
		return journal.Head{}, err
	}
	db, base, head, err := load()
	if err != nil {
		return journal.Head{}, err
	}
	j.db, j.base, j.head = db, base, head
	return head, nil
}

// Loaded returns the open database and the head of the journal. Nil: the journal is not loaded.
func (j *Journal) Loaded() (Database, journal.Head) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.db, j.head
}

// Size implements journal.Journal: there is no bound.
func (j *Journal) Size() journal.Size { return journal.Size{} }

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.disconnect()
}

func (j *Journal) disconnect() error {
	db := j.db
	if j.db = nil; db == nil {
		return nil
	}
	return db.Close()
}
