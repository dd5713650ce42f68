package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // registers itself with database/sql

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// format is the database's user_version. It is 1 since the first release.
const format = 1

// See package tables for parts of a snapshot.
const schema = `
	CREATE TABLE base (
		lineage  TEXT    NOT NULL,
		revision INTEGER NOT NULL,
		hash     BLOB    NOT NULL,
		first    INTEGER NOT NULL,
		last     INTEGER NOT NULL,
		seal     BLOB    NOT NULL
	) STRICT;
	CREATE TABLE state   (part INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
	CREATE TABLE records (revision INTEGER PRIMARY KEY, hash BLOB NOT NULL, events BLOB NOT NULL) STRICT;
	PRAGMA user_version = 1;`

var queries = tables.Queries{
	Hash:     "SELECT hash FROM records WHERE revision = $1",
	LastPart: "SELECT max(last, coalesce((SELECT max(part) FROM state), 0)) FROM base",
	Size:     "SELECT coalesce(sum(length(bytes)), 0) FROM state WHERE part BETWEEN $1 AND $2",
	State:    "SELECT bytes FROM state WHERE part BETWEEN $1 AND $2 ORDER BY part",
	Records:  "SELECT revision, hash, events FROM records WHERE revision > $1 ORDER BY revision",
	Sweeps: []tables.Sweep{
		{Limit: 16, Query: `DELETE FROM state WHERE part IN (
			SELECT part FROM state, base WHERE part NOT BETWEEN first AND last LIMIT $1)`},
		{Limit: 500, Query: `DELETE FROM records WHERE revision IN (
			SELECT r.revision FROM records r, base b WHERE r.revision <= b.revision LIMIT $1)`},
	},
}

// partSize is the size of a part, in bytes: to write it takes some milliseconds.
const partSize = 256 << 10

// database is one connection: database/sql must not replace it by one without our lock and settings.
type database struct {
	*sql.Conn
	pool *sql.DB
	// insert adds a record. It is there, like mark, only if the database is open for writing.
	insert *sql.Stmt
	mark   *headFile
}

// open connects to an existing file. Mode "ro" changes nothing in it, not even on close. (On close, a
// connection that may write moves the rest of the WAL into the database.)
func open(ctx context.Context, path, mode string) (db *database, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=" + mode + "&_busy_timeout=1000"}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &database{Conn: conn, pool: pool}, nil
}

// configure locks the database until the connection ends, and makes commits durable.
func (db *database) configure(ctx context.Context) error {
	// The lock comes before the first access to the WAL. So the WAL's index is in memory, and not in a
	// file that another process could share.
	if _, err := db.ExecContext(ctx, "PRAGMA locking_mode = EXCLUSIVE"); err != nil {
		return err
	}
	if err := db.checkValue(ctx, "wal", "PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "PRAGMA synchronous = FULL")
	return err
}

// create makes an empty journal in a database without tables.
func (db *database) create(ctx context.Context) (genesis journal.Head, err error) {
	genesis = journal.Genesis()
	seal := genesis.Seal(nil)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return genesis, err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return genesis, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO base VALUES (?, 0, ?, 1, 0, ?)", genesis.Lineage, genesis.Hash[:],
		seal[:]); err != nil {
		return genesis, err
	}
	return genesis, tx.Commit()
}

// checkValue runs a query for one value and compares it.
func (db *database) checkValue(ctx context.Context, want any, query string) error {
	var got any
	if err := db.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", query, got, want)
	}
	return nil
}

// Append implements tables.Database: it commits first, and then marks the new head.
func (db *database) Append(ctx context.Context, _, next journal.Head, encoded []byte) error {
	if _, err := db.insert.ExecContext(ctx, int64(next.Revision), next.Hash[:], encoded); err != nil {
		return err
	}
	return db.mark.write(next)
}

// NewLineage implements tables.Database.
func (db *database) NewLineage(ctx context.Context, _, next journal.Head) error {
	if _, err := db.ExecContext(ctx, "UPDATE base SET lineage = ?", next.Lineage); err != nil {
		return err
	}
	return errors.Join(db.mark.write(next), db.mark.Sync())
}

// AddPart implements tables.Database.
func (db *database) AddPart(ctx context.Context, part int64, state []byte) error {
	_, err := db.ExecContext(ctx, "INSERT INTO state VALUES (?, ?)", part, state)
	return err
}

// Rebase implements tables.Database.
func (db *database) Rebase(ctx context.Context, to tables.Snapshot, head journal.Head) error {
	// The head file must name a head that remains when older records are dropped.
	if err := db.mark.Sync(); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "UPDATE base SET lineage = ?, revision = ?, hash = ?, first = ?, last = ?, seal = ?",
		head.Lineage, int64(to.At.Revision), to.At.Hash[:], to.First, to.Last, to.Seal[:])
	if err != nil || head != to.At {
		return err
	}
	// A journal that begins with a snapshot has its first mark here. A crash before leaves one that is refused.
	return errors.Join(db.mark.write(head), db.mark.Sync())
}

// Close implements tables.Database.
func (db *database) Close() (err error) {
	if db.mark != nil {
		err = db.mark.Close()
	}
	if db.insert != nil {
		err = errors.Join(err, db.insert.Close())
	}
	return errors.Join(err, db.Conn.Close(), db.pool.Close())
}
