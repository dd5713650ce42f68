// Package postgres keeps a journal in a PostgreSQL database, for a broker whose machine may be lost.
//
// A journal is three tables, in the schema that the URL's search_path names: bourse_journal, of one
// row, which says where base and head are; bourse_records; bourse_state. An append is one statement
// that moves the head and inserts the record, and does neither where the head, or the writer, is
// another: durable when it returns, because our sessions have synchronous_commit on and a server
// without fsync is refused.
//
// Several processes may be started on one database. Lead elects one of them by an advisory lock, so that the
// others stand by; but what keeps a process that was stalled, or cut off, from writing is the row: whoever
// loaded the journal last is its writer, and an append of any other is ErrConflict.
//
// An SQLite file needs a head outside of it, because SQLite takes a damaged end of its log for the
// end. PostgreSQL replays its log up to what a checkpoint and its own checksums say. What it drops
// of one table shows in the others: each row of the chain is verified by Load, and the head is in a
// row of its own. What is left is an older copy of everything. PostgreSQL itself tells most of
// these: another server, another database or another timeline (which a recovery to a point in time,
// and a promoted replica, begin) is another place than the one that the journal was last loaded in,
// and is refused until an operator accepts the loss. A copy of the server's files that is put back
// in place of them is not noticed: run accept-loss after that.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bourse-dev/bourse/internal/journal"
)

// patience is how long one statement may take: longer, and the server is gone for all we know.
const patience = 30 * time.Second

// Journal is a journal.Journal in a database.
type Journal struct {
	config *pgx.ConnConfig

	// whole is held by everything but Append, and longer than mu: a snapshot is written in pieces,
	// between which appends go on.
	whole sync.Mutex

	mu         sync.Mutex // guards what follows
	conn       *pgx.Conn  // nil until loaded, and after a failure
	writer     string     // what the row must say for us to write
	base, head journal.Head

	lead leadership
}

var _ journal.Journal = (*Journal)(nil)

// Where names the database without its password.
func (j *Journal) Where() string {
	return fmt.Sprintf("postgres://%s@%s/%s", j.config.User, j.config.Host, j.config.Database)
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	encoded, err := journal.Encode(nil, events)
	if err != nil {
		return journal.Head{}, err
	}
	next := after.Next(len(events), encoded)
	return j.advance(ctx, after, next, `
		WITH moved AS (
			UPDATE bourse_journal SET revision = $3, hash = $4 WHERE writer = $1 AND revision = $2 RETURNING 1)
		INSERT INTO bourse_records (revision, hash, events) SELECT $3, $4, $5 FROM moved`,
		int64(after.Revision), int64(next.Revision), next.Hash[:], encoded)
}

// NewLineage implements journal.Journal. What was loaded from another place belongs to this one from then on.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	next := after.Renew()
	return j.advance(ctx, after, next,
		`UPDATE bourse_journal SET lineage = $3, place = `+place+` WHERE writer = $1 AND revision = $2`,
		int64(after.Revision), next.Lineage)
}

// advance moves the head by a statement whose $1 is the writer.
func (j *Journal) advance(ctx context.Context, after, next journal.Head, statement string,
	args ...any) (journal.Head, error) {
	err := j.write(ctx, func(ctx context.Context) error {
		if after != j.head {
			return fmt.Errorf("write after %v, but the head is %v: %w", after, j.head, journal.ErrConflict)
		}
		if err := j.exec(ctx, statement, args...); err != nil {
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

// exec runs a statement that changes one row exactly if we are the writer, who is its $1.
func (j *Journal) exec(ctx context.Context, statement string, args ...any) error {
	done, err := j.conn.Exec(ctx, statement, append([]any{j.writer}, args...)...)
	if err == nil && done.RowsAffected() != 1 {
		err = fmt.Errorf("journal %s has another writer now: another broker took over: %w", j.Where(), journal.ErrConflict)
	}
	return err
}

// write makes one short change. ctx counts only until it begins: nobody would know the outcome of a commit
// that was interrupted. After a failure the journal must be loaded again to know.
func (j *Journal) write(ctx context.Context, change func(context.Context) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.conn == nil {
		return journal.ErrNotLoaded
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := change(ctx)
	if err != nil && !errors.Is(err, journal.ErrConflict) {
		j.disconnect()
		return fmt.Errorf("journal %s: %w", j.Where(), err)
	}
	return err
}

// Size implements journal.Journal: there is no bound.
func (j *Journal) Size() journal.Size { return journal.Size{} }

// Close implements journal.Journal. It gives up the lead.
func (j *Journal) Close() error {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disconnect()
	j.lead.end()
	return nil
}

// disconnect says goodbye to the server, for not longer than it takes one that is there.
func (j *Journal) disconnect() {
	hangUp(j.conn)
	j.conn = nil
}

func hangUp(conn *pgx.Conn) {
	if conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}
}
