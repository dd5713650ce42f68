package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/bourse-dev/bourse/internal/journal"
)

// One piece of a snapshot's work: short enough for an append to wait for it, some milliseconds.
const (
	partSize   = 256 << 10 // bytes of state
	sweepParts = 16
	sweepRows  = 500
)

// Snapshot implements journal.Journal. The state is written in parts that count for nothing until one
// short transaction makes them the base; what that replaced is then swept, in pieces too. A crash
// anywhere leaves the old snapshot or the new one, and at most rows that the next Snapshot sweeps.
func (j *Journal) Snapshot(ctx context.Context, at journal.Head, state []byte) error {
	if len(state) == 0 {
		return errEmpty
	}
	return j.SnapshotFrom(ctx, at, whole(state))
}

var errEmpty = fmt.Errorf("%w: a snapshot must not be empty", journal.ErrInvalid)

// whole writes a state that is in memory.
func whole(state []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(state)
		return err
	}
}

// SnapshotFrom implements journal.Streamer.
func (j *Journal) SnapshotFrom(ctx context.Context, at journal.Head, write func(io.Writer) error) error {
	j.whole.Lock()
	defer j.whole.Unlock()
	if err := j.write(ctx, func(ctx context.Context) error { return j.locate(ctx, at) }); err != nil {
		return err
	}
	first, last, seal, err := j.writeState(ctx, at, write)
	if err != nil {
		return err
	}
	err = j.write(ctx, func(ctx context.Context) error {
		// The head file's newest slot must not lag behind what is about to be dropped.
		if err := j.mark.Sync(); err != nil {
			return err
		}
		j.base = at
		_, err := j.db.ExecContext(ctx, "UPDATE base SET revision = ?, hash = ?, first = ?, last = ?, seal = ?",
			int64(at.Revision), at.Hash[:], first, last, seal[:])
		return err
	})
	if err != nil {
		return err
	}
	return j.sweep(ctx)
}

// Begin makes a new journal, or one that holds nothing yet, begin at a snapshot: that of another
// journal. Errors: ErrConflict where the journal holds something; otherwise as Load and Snapshot.
func (j *Journal) Begin(ctx context.Context, at journal.Head, state []byte) error {
	head, err := j.Load(ctx, ignoreState, ignoreRecord)
	if err != nil {
		return err
	}
	if head.Revision > 0 {
		return fmt.Errorf("journal %s is at %v: %w", j.path, head, journal.ErrConflict)
	}
	j.whole.Lock()
	defer j.whole.Unlock()
	first, last, seal, err := j.writeState(ctx, at, whole(state))
	if err != nil {
		return err
	}
	return j.write(ctx, func(ctx context.Context) error {
		// The head file must not name the empty journal when that is gone, nor what is not there yet: a crash
		// in between leaves an empty one, or one without a mark, which is refused.
		if err := j.mark.Truncate(0); err != nil {
			return err
		}
		j.base, j.head = at, at
		_, err := j.db.ExecContext(ctx, "UPDATE base SET lineage = ?, revision = ?, hash = ?, first = ?, last = ?, seal = ?",
			at.Lineage, int64(at.Revision), at.Hash[:], first, last, seal[:])
		return errors.Join(err, j.mark.write(at), j.mark.Sync())
	})
}

// locate finds at in the journal.
func (j *Journal) locate(ctx context.Context, at journal.Head) error {
	if at == j.base || at == j.head {
		return nil
	}
	var hash []byte
	err := j.db.QueryRowContext(ctx, "SELECT hash FROM records WHERE revision = ?", int64(at.Revision)).Scan(&hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if at.Lineage != j.head.Lineage || at.Revision < j.base.Revision || !bytes.Equal(hash, at.Hash[:]) {
		return fmt.Errorf("snapshot at %v, which is not between %v and %v: %w", at, j.base, j.head, journal.ErrConflict)
	}
	return nil
}

// writeState writes a state in parts, and returns the first and the last of them, and its seal.
func (j *Journal) writeState(ctx context.Context, at journal.Head, write func(io.Writer) error) (first, last int64,
	seal journal.Hash, err error) {
	err = j.write(ctx, func(ctx context.Context) error {
		return j.db.QueryRowContext(ctx, "SELECT max(last, coalesce((SELECT max(part) FROM state), 0)) FROM base").Scan(&last)
	})
	if err != nil {
		return 0, 0, seal, err
	}
	w := &parts{j: j, ctx: ctx, last: last, sum: at.Sealing()}
	if err = write(w); err == nil {
		err = w.store()
	}
	if err == nil && w.last == last {
		err = errEmpty
	}
	w.sum.Sum(seal[:0])
	return last + 1, w.last, seal, err
}

// parts takes a state, and stores it in rows of partSize bytes.
type parts struct {
	j    *Journal
	ctx  context.Context
	next []byte // what is not stored yet
	last int64
	sum  hash.Hash
}

// Write implements io.Writer.
func (w *parts) Write(state []byte) (n int, err error) {
	w.sum.Write(state)
	for n = len(state); len(state) > 0; {
		piece := state[:min(partSize-len(w.next), len(state))]
		w.next, state = append(w.next, piece...), state[len(piece):]
		if len(w.next) == partSize {
			if err := w.store(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// store stores what is not stored yet.
func (w *parts) store() error {
	if len(w.next) == 0 {
		return nil
	}
	err := w.j.write(w.ctx, func(ctx context.Context) error {
		_, err := w.j.db.ExecContext(ctx, "INSERT INTO state VALUES (?, ?)", w.last+1, w.next)
		return err
	})
	w.last, w.next = w.last+1, w.next[:0]
	return err
}

// sweep deletes what the base does not need.
func (j *Journal) sweep(ctx context.Context) error {
	for _, pass := range []struct {
		query string
		limit int64
	}{
		{`DELETE FROM state WHERE part IN (SELECT part FROM state, base WHERE part NOT BETWEEN first AND last LIMIT ?)`,
			sweepParts},
		{`DELETE FROM records WHERE revision IN (SELECT r.revision FROM records r, base b WHERE r.revision <= b.revision LIMIT ?)`, sweepRows},
	} {
		for swept := pass.limit; swept == pass.limit; {
			err := j.write(ctx, func(ctx context.Context) error {
				result, err := j.db.ExecContext(ctx, pass.query, pass.limit)
				if err != nil {
					return err
				}
				swept, err = result.RowsAffected()
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
