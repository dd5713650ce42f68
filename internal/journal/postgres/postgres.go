// Package postgres keeps a journal in a PostgreSQL database, for a broker whose machine may be lost.
//
// A journal is three tables, in the schema that the URL's search_path names: bourse_records,
// bourse_state, and bourse_journal with one row for base and head. An append is one statement that moves
// the head and inserts the record. It does neither if the head or the writer is another. It is durable
// when it returns: our sessions have synchronous_commit on, and a server without fsync is refused.
//
// Several processes may start on one database. Lead elects one of them by an advisory lock, and the
// others stand by. The lock alone does not stop a stalled process that continues. The row does: the
// process that loaded the journal last is its writer, and an append of any other is ErrConflict.
//
// SQLite needs a head outside of the database, because it takes a damaged end of its log for the end.
// PostgreSQL does not: a checkpoint and its own checksums say where the log ends. A loss in one table
// shows in the others, because Load verifies the chain and the head has its own row. There remains an
// older copy of everything. PostgreSQL shows most of these as another place: another server, database or
// timeline than at the last load. A recovery to a point in time and a promoted replica begin a new
// timeline. Another place is refused until an operator accepts the loss. An old copy of the server's
// files in the same place is not noticed: run accept-loss after that.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

const (
	// patience is how long one statement may take. After that the server is considered gone.
	patience = 30 * time.Second
	// partSize is the size of a part of a snapshot, in bytes.
	partSize = 1 << 20
)

// Journal is a journal.Journal in a database.
type Journal struct {
	tables.Journal
	config *pgx.ConnConfig
	lead   leadership
}

var _ journal.Journal = (*Journal)(nil)

var queries = tables.Queries{
	Hash:     "SELECT hash FROM bourse_records WHERE revision = $1",
	LastPart: "SELECT greatest(last, (SELECT max(part) FROM bourse_state)) FROM bourse_journal",
	Size:     "SELECT coalesce(sum(length(bytes)), 0) FROM bourse_state WHERE part BETWEEN $1 AND $2",
	State:    "SELECT bytes FROM bourse_state WHERE part BETWEEN $1 AND $2 ORDER BY part",
	Records:  "SELECT revision, hash, events FROM bourse_records WHERE revision > $1 ORDER BY revision",
	// A sweep needs no fence: another writer does not need these rows either.
	Sweeps: []tables.Sweep{
		{Limit: 16, Query: `DELETE FROM bourse_state WHERE part IN (
			SELECT part FROM bourse_state, bourse_journal WHERE part < first LIMIT $1)`},
		{Limit: 2000, Query: `DELETE FROM bourse_records WHERE revision IN (
			SELECT r.revision FROM bourse_records r, bourse_journal j WHERE r.revision <= j.base_revision LIMIT $1)`},
	},
}

// Close implements journal.Journal. It gives up the lead.
func (j *Journal) Close() error {
	err := j.Journal.Close()
	j.lead.end()
	return err
}

// session is one connection with the server.
type session struct {
	*sql.Conn
	pool *sql.DB
	// where names the database.
	where string
	// writer is what the journal's row must say for this session to write. Empty: it only reads.
	writer string
}

// Close ends the session.
func (s *session) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.Conn.Close(), s.pool.Close())
}

// change runs a statement that changes one row exactly if this session is the writer, its $1.
func (s *session) change(ctx context.Context, statement string, args ...any) error {
	done, err := s.ExecContext(ctx, statement, append([]any{s.writer}, args...)...)
	if err != nil {
		return err
	}
	if changed, err := done.RowsAffected(); err != nil || changed == 1 {
		return err
	}
	return fmt.Errorf("journal %s has another writer now: another broker took over: %w", s.where, journal.ErrConflict)
}

// Append implements tables.Database.
func (s *session) Append(ctx context.Context, after, next journal.Head, encoded []byte) error {
	return s.change(ctx, `
		WITH moved AS (
			UPDATE bourse_journal SET revision = $3, hash = $4 WHERE writer = $1 AND revision = $2 RETURNING 1)
		INSERT INTO bourse_records (revision, hash, events) SELECT $3, $4, $5 FROM moved`,
		int64(after.Revision), int64(next.Revision), next.Hash[:], encoded)
}

// NewLineage implements tables.Database. From then on, what was loaded from another place belongs to this one.
func (s *session) NewLineage(ctx context.Context, after, next journal.Head) error {
	return s.change(ctx,
		`UPDATE bourse_journal SET lineage = $3, place = `+place+` WHERE writer = $1 AND revision = $2`,
		int64(after.Revision), next.Lineage)
}

// AddPart implements tables.Database.
func (s *session) AddPart(ctx context.Context, part int64, state []byte) error {
	return s.change(ctx, "INSERT INTO bourse_state (part, bytes) SELECT $2, $3 FROM bourse_journal WHERE writer = $1",
		part, state)
}

// Rebase implements tables.Database.
func (s *session) Rebase(ctx context.Context, to tables.Snapshot, head journal.Head) error {
	return s.change(ctx, `UPDATE bourse_journal SET lineage = $2, revision = $3, hash = $4, base_revision = $5,
		base_hash = $6, first = $7, last = $8, seal = $9 WHERE writer = $1`, head.Lineage, int64(head.Revision),
		head.Hash[:], int64(to.At.Revision), to.At.Hash[:], to.First, to.Last, to.Seal[:])
}
