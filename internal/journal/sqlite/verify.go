package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// Remedies for an operator. The command works on the files of a stopped broker.
const (
	acceptLoss   = "run `bourse broker journal accept-loss`, which keeps the existing events and starts a new lineage"
	remedyDamage = "keep a copy of the files, put back the newest backup of the database without -wal and -shm " +
		"files, then " + acceptLoss
	remedyReadOnly = "let this user write the file; if the user can already, " + remedyDamage
	remedyMissing  = "put back the newest copy of the database together with its -wal and .head files; if " +
		"there is none, " + acceptLoss
	remedyHead = "put back the head file that belongs to the database; if there is none, " + acceptLoss
)

// content is the result of verify.
type content struct {
	tables.Reading
	path   string
	db     *database // while it is read
	fresh  bool      // there is no journal in it yet
	marked bool      // it has the head that the head file names
}

// verify reads the whole database, recomputes its chain and replays it. It never changes a file.
func verify(ctx context.Context, path string, expected *journal.Head, onSnapshot tables.OnSnapshot,
	onRecord tables.OnRecord) (*content, error) {
	// SQLite takes a file of at most one byte for an empty database, and deletes its WAL.
	if size(path) <= 1 {
		if size(path+"-wal") > 0 {
			return nil, tables.Refused(path, remedyDamage, "the file is empty but has a WAL")
		}
		return &content{fresh: true}, nil
	}
	// A first start that was killed before it switched to a WAL leaves a transaction that SQLite must roll
	// back, which it cannot do without writing. One page holds no table, and without a head nothing was
	// ever acknowledged.
	if expected == nil && size(path) <= firstPage && size(path+"-journal") > 0 {
		return &content{fresh: true}, nil
	}
	db, err := open(ctx, path, "ro")
	if err != nil {
		return nil, describe(path, err)
	}
	defer db.Close()
	c := &content{path: path, db: db, Reading: tables.Reading{Queries: queries,
		Refuse: func(found string, args ...any) error { return tables.Refused(path, remedyDamage, found, args...) }}}
	c.Passed = func(head journal.Head) { c.marked = c.marked || expected != nil && *expected == head }
	err = c.read(ctx, onSnapshot, onRecord)
	if c.Callback != nil {
		return nil, fmt.Errorf("replay journal %s: %w", path, c.Callback)
	}
	return c, describe(path, err)
}

// firstPage is the size of a database that has nothing but its header.
const firstPage = 4096

func size(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}

func (c *content) read(ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord) error {
	// One transaction sees one state of the file.
	if _, err := c.db.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := c.format(ctx); err != nil || c.fresh {
		return err
	}
	checked := make(chan error, 1)
	go func() { checked <- c.check(ctx) }()
	err := c.replay(ctx, onSnapshot, onRecord)
	if damage := <-checked; damage != nil { // it is the cause of other errors
		c.Callback = nil
		return damage
	}
	return err
}

// check lets SQLite check its own structures, so that a damaged list of free pages does not make it
// overwrite records. The chain proves only the records that are read. The check takes as long as reading,
// and so it has its own connection.
func (c *content) check(ctx context.Context) error {
	db, err := open(ctx, c.path, "ro")
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return c.Refuse("SQLite's check says %q", verdict)
	}
	return nil
}

func (c *content) format(ctx context.Context) error {
	var version, count int
	if err := c.db.QueryRowContext(ctx,
		"SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").Scan(&version,
		&count); err != nil {
		return err
	}
	c.fresh = version == 0 && count == 0
	switch {
	case version > format:
		return tables.Refused(c.path, tables.RemedyNewer, "its format is %d, this version knows %d", version, format)
	case version != format && !c.fresh:
		return c.Refuse("its format is %d, which no version of bourse writes", version)
	}
	return nil
}

func (c *content) replay(ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord) error {
	var first, last int64
	var hash, seal []byte
	row := c.db.QueryRowContext(ctx, "SELECT lineage, revision, hash, first, last, seal FROM base")
	if err := row.Scan(&c.Base.Lineage, &c.Base.Revision, &hash, &first, &last, &seal); err != nil {
		return err
	}
	copy(c.Base.Hash[:], hash)
	return c.Replay(ctx, c.db, first, last, seal, onSnapshot, onRecord)
}

// compare refuses a database that differs from its head file.
func (c *content) compare(path string, mark mark) error {
	refused := &journal.RefusedError{Where: path, Remedy: remedyHead}
	switch {
	case mark.damaged:
		refused.Found = "its head file is damaged"
	case c.marked, mark.head == nil && c.Head.Revision == 0:
		return nil // a new journal, or a crash before its head file was written
	case mark.head == nil:
		refused.Found = "it has no head file"
	default:
		refused.Found = fmt.Sprintf("it has %v to %v, but its head file says that %v was committed", c.Base, c.Head,
			mark.head)
		refused.Remedy = remedyMissing
	}
	return refused
}

// describe returns the error for a damaged journal, or for one that cannot be reached.
func describe(path string, err error) error {
	var refused *journal.RefusedError
	var file *os.PathError
	var failure *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return err
	case errors.As(err, &file), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("open journal %s: %w", path, err)
	case errors.As(err, &failure) && failure.Code() != sqlite3.SQLITE_IOERR_SHORT_READ: // that one is a file that was cut
		switch failure.Code() & 0xff { // the rest is the extended code
		case sqlite3.SQLITE_BUSY:
			return &journal.RefusedError{Where: path, Found: "another process has it open", Remedy: tables.RemedyInUse}
		case sqlite3.SQLITE_READONLY:
			return &journal.RefusedError{Where: path, Found: err.Error(), Remedy: remedyReadOnly}
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
			sqlite3.SQLITE_INTERRUPT:
			return fmt.Errorf("open journal %s: %w", path, err)
		}
	}
	return &journal.RefusedError{Where: path, Found: err.Error(), Remedy: remedyDamage}
}
