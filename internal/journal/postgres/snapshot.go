package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/bourse-dev/bourse/internal/journal"
)

// One piece of a snapshot's work: short enough for an append to wait for it.
const (
	partSize   = 1 << 20 // bytes of state
	sweepParts = 16
	sweepRows  = 2000
)

// Snapshot implements journal.Journal. The state is written in parts that count for nothing until one short
// statement makes them the base; what that replaced is then swept, in pieces too. A crash anywhere leaves the
// old snapshot or the new one, and at most rows that the next Snapshot sweeps.
func (j *Journal) Snapshot(ctx context.Context, at journal.Head, state []byte) error {
	if len(state) == 0 {
		return fmt.Errorf("%w: a snapshot must not be empty", journal.ErrInvalid)
	}
	j.whole.Lock()
	defer j.whole.Unlock()
	if err := j.write(ctx, func(ctx context.Context) error { return j.locate(ctx, at) }); err != nil {
		return err
	}
	first, last, err := j.writeState(ctx, state)
	if err != nil {
		return err
	}
	seal := at.Seal(state)
	err = j.write(ctx, func(ctx context.Context) error {
		j.base = at
		return j.exec(ctx,
			"UPDATE bourse_journal SET base_revision = $2, base_hash = $3, first = $4, last = $5, seal = $6 WHERE writer = $1",
			int64(at.Revision), at.Hash[:], first, last, seal[:])
	})
	if err != nil {
		return err
	}
	return j.sweep(ctx)
}

// Begin makes an empty journal, or one that holds nothing yet, begin at a snapshot: that of another
// journal. It must be loaded after that. No broker may lead. Errors: ErrConflict where the journal
// holds something; otherwise as Load and Snapshot.
func (j *Journal) Begin(ctx context.Context, at journal.Head, state []byte) error {
	if err := j.alone(ctx); err != nil {
		return err
	}
	head, err := j.Load(ctx, ignoreState, ignoreRecord)
	if err != nil {
		return err
	}
	if head.Revision > 0 {
		return fmt.Errorf("journal %s is at %v: %w", j.Where(), head, journal.ErrConflict)
	}
	j.whole.Lock()
	defer j.whole.Unlock()
	first, last, err := j.writeState(ctx, state)
	if err != nil {
		return err
	}
	seal := at.Seal(state)
	return j.write(ctx, func(ctx context.Context) error {
		j.base, j.head = at, at
		return j.exec(ctx, `UPDATE bourse_journal SET lineage = $2, revision = $3, hash = $4, base_revision = $3, base_hash = $4,
			first = $5, last = $6, seal = $7 WHERE writer = $1`, at.Lineage, int64(at.Revision), at.Hash[:], first, last, seal[:])
	})
}

// locate finds at in the journal.
func (j *Journal) locate(ctx context.Context, at journal.Head) error {
	if at == j.base || at == j.head {
		return nil
	}
	var there bool
	err := j.conn.QueryRow(ctx, "SELECT true FROM bourse_records WHERE revision = $1 AND hash = $2",
		int64(at.Revision), at.Hash[:]).Scan(&there)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if !there || at.Lineage != j.head.Lineage || at.Revision < j.base.Revision {
		return fmt.Errorf("snapshot at %v, which is not between %v and %v: %w", at, j.base, j.head, journal.ErrConflict)
	}
	return nil
}

func (j *Journal) writeState(ctx context.Context, state []byte) (first, last int64, err error) {
	err = j.write(ctx, func(ctx context.Context) error {
		return j.conn.QueryRow(ctx,
			"SELECT greatest(last, (SELECT max(part) FROM bourse_state)) FROM bourse_journal").Scan(&last)
	})
	first = last + 1
	for err == nil && len(state) > 0 {
		part := state[:min(partSize, len(state))]
		state = state[len(part):]
		last++
		err = j.write(ctx, func(ctx context.Context) error {
			return j.exec(ctx, "INSERT INTO bourse_state (part, bytes) SELECT $2, $3 FROM bourse_journal WHERE writer = $1",
				last, part)
		})
	}
	return first, last, err
}

// sweep deletes what the base does not need. It needs no fence: it is as little needed by another writer.
func (j *Journal) sweep(ctx context.Context) error {
	for _, pass := range []struct {
		query string
		limit int64
	}{
		{`DELETE FROM bourse_state WHERE part IN (SELECT part FROM bourse_state, bourse_journal WHERE part < first LIMIT $1)`,
			sweepParts},
		{`DELETE FROM bourse_records WHERE revision IN (SELECT r.revision FROM bourse_records r, bourse_journal j WHERE r.revision <= j.base_revision LIMIT $1)`, sweepRows},
	} {
		for swept := pass.limit; swept == pass.limit; {
			err := j.write(ctx, func(ctx context.Context) error {
				done, err := j.conn.Exec(ctx, pass.query, pass.limit)
				swept = done.RowsAffected()
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
