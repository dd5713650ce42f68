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
)

// format is kept as user_version: 1 since the first release.
const format = 1

// The state of a snapshot is in parts (see Snapshot): those from first to last are base's, others are
// left over. So are records up to base's revision.
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

// database is one connection: database/sql must not replace it by one without our lock and settings.
type database struct {
	*sql.Conn
	pool   *sql.DB
	insert *sql.Stmt // a record; only of a database opened for writing
}

// open connects to an existing file. In mode "ro" it changes nothing in it, not even when closed: a
// connection that may write then moves what is left of the WAL into the database.
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

// configure locks the database, for as long as the connection lasts, and makes commits durable.
func (db *database) configure(ctx context.Context) error {
	// Locked before the WAL is first touched: then its index is in memory, not in a file that others
	// might share.
	if _, err := db.ExecContext(ctx, "PRAGMA locking_mode = EXCLUSIVE"); err != nil {
		return err
	}
	if err := db.expect(ctx, "wal", "PRAGMA journal_mode = WAL"); err != nil {
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

// expect runs a query for one value and compares it.
func (db *database) expect(ctx context.Context, want any, query string) error {
	var got any
	if err := db.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", query, got, want)
	}
	return nil
}

func (db *database) close() (err error) {
	if db.insert != nil {
		err = db.insert.Close()
	}
	return errors.Join(err, db.Conn.Close(), db.pool.Close())
}
