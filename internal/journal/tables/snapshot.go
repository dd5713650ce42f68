package tables

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

// Snapshot implements journal.Journal. The state is written in parts that count for nothing until one
// short transaction makes them the base. What that replaced is then swept, in pieces too. A crash
// anywhere leaves the old snapshot or the new one, and at most rows that the next Snapshot sweeps.
func (j *Journal) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	return j.rebase(ctx, head, write, j.locate)
}

// BeginAt makes a loaded journal without events begin at the snapshot of another journal. Errors:
// ErrConflict if the journal has events; otherwise as Snapshot.
func (j *Journal) BeginAt(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	return j.rebase(ctx, head, write, func(context.Context, journal.Head) error {
		if j.head.Revision > 0 {
			return fmt.Errorf("journal %s is at %v: %w", j.Where, j.head, journal.ErrConflict)
		}
		return nil
	})
}

// rebase makes a snapshot the base. check says why it must not.
func (j *Journal) rebase(ctx context.Context, head journal.Head, write func(io.Writer) error,
	check func(context.Context, journal.Head) error) error {
	j.whole.Lock()
	defer j.whole.Unlock()
	if err := j.write(ctx, func(ctx context.Context) error { return check(ctx, head) }); err != nil {
		return err
	}
	to, err := j.writeState(ctx, head, write)
	if err != nil {
		return err
	}
	err = j.write(ctx, func(ctx context.Context) error {
		if j.base = head; j.head.Revision == 0 {
			j.head = head
		}
		return j.db.Rebase(ctx, to, j.head)
	})
	if err != nil {
		return err
	}
	return j.sweep(ctx)
}

// locate checks that a head is between the base and the head of the journal.
func (j *Journal) locate(ctx context.Context, head journal.Head) error {
	if head == j.base || head == j.head {
		return nil
	}
	var hash []byte
	err := j.db.QueryRowContext(ctx, j.Hash, int64(head.Revision)).Scan(&hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if head.Lineage != j.head.Lineage || head.Revision < j.base.Revision || !bytes.Equal(hash, head.Hash[:]) {
		return fmt.Errorf("snapshot at %v, which is not between %v and %v: %w", head, j.base, j.head, journal.ErrConflict)
	}
	return nil
}

// writeState writes a state in parts.
func (j *Journal) writeState(ctx context.Context, head journal.Head, write func(io.Writer) error) (Snapshot, error) {
	w := &parts{j: j, ctx: ctx, sum: head.Sealing()}
	err := j.write(ctx, func(ctx context.Context) error { return j.db.QueryRowContext(ctx, j.LastPart).Scan(&w.last) })
	if err != nil {
		return Snapshot{}, err
	}
	written := Snapshot{At: head, First: w.last + 1}
	if err = write(w); err == nil {
		err = w.store()
	}
	if err == nil && w.last < written.First {
		err = fmt.Errorf("%w: a snapshot must not be empty", journal.ErrInvalid)
	}
	w.sum.Sum(written.Seal[:0])
	written.Last = w.last
	return written, err
}

// parts takes a state, and stores it in parts.
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
		piece := state[:min(w.j.PartSize-len(w.next), len(state))]
		w.next, state = append(w.next, piece...), state[len(piece):]
		if len(w.next) == w.j.PartSize {
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
	err := w.j.write(w.ctx, func(ctx context.Context) error { return w.j.db.AddPart(ctx, w.last+1, w.next) })
	w.last, w.next = w.last+1, w.next[:0]
	return err
}

// sweep deletes what the base does not need.
func (j *Journal) sweep(ctx context.Context) error {
	for _, pass := range j.Sweeps {
		for swept := pass.Limit; swept == pass.Limit; {
			err := j.write(ctx, func(ctx context.Context) error {
				result, err := j.db.ExecContext(ctx, pass.Query, pass.Limit)
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
