package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/bourse-dev/bourse/internal/journal"
)

// What an operator can do. The command works on the files of a stopped broker.
const (
	acceptLoss     = "run `bourse broker journal accept-loss`, which keeps what is there and starts a new lineage"
	remedyInUse    = "stop the other process first"
	remedyNewer    = "start the version of bourse that wrote it, or a later one"
	remedyDamage   = "keep a copy of the files, put back the newest backup of the database without -wal and -shm files, then " + acceptLoss
	remedyReadOnly = "let this user write the file; if that is so already, " + remedyDamage
	remedyMissing  = "put back the newest copy of the database together with its -wal and .head files; if there is none, " + acceptLoss
	remedyHead     = "put back the head file that belongs to the database; if there is none, " + acceptLoss
)

// content is what verify found in a database.
type content struct {
	fresh      bool // no journal was ever made in it
	marked     bool // it has the head that the head file names
	base, head journal.Head
}

// verify reads the whole database, recomputes its chain and replays it. It changes no file, whatever
// it finds.
func verify(ctx context.Context, path string, said *journal.Head, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (*content, error) {
	// A file of no byte, or one, is an empty database to SQLite, whose WAL it deletes: not so here.
	if size(path) <= 1 {
		if size(path+"-wal") > 0 {
			return nil, &journal.RefusedError{Where: path, Found: "the file is empty but has a WAL", Remedy: remedyDamage}
		}
		return &content{fresh: true}, nil
	}
	// A first start that was killed before it had switched to a WAL leaves what SQLite must roll
	// back, which it cannot without writing. One page holds no table, and without a head nothing
	// was ever acknowledged.
	if said == nil && size(path) <= firstPage && size(path+"-journal") > 0 {
		return &content{fresh: true}, nil
	}
	db, err := open(ctx, path, "ro")
	if err != nil {
		return nil, describe(path, err)
	}
	defer db.close()
	v := verifier{db: db, path: path, said: said}
	err = v.run(ctx, onSnapshot, onRecord)
	if v.callback != nil {
		return nil, fmt.Errorf("replay journal %s: %w", path, v.callback)
	}
	return &v.content, describe(path, err)
}

// firstPage is the size of a database that has nothing but its header.
const firstPage = 4096

func size(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}

type verifier struct {
	content
	db   *database
	path string
	said *journal.Head

	callback error // what a callback returned
}

func (v *verifier) run(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) error {
	// All in one transaction: one state of the file.
	if _, err := v.db.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := v.format(ctx); err != nil || v.fresh {
		return err
	}
	checked := make(chan error, 1)
	go func() { checked <- v.check(ctx) }()
	err := v.snapshot(ctx, onSnapshot)
	if err == nil {
		err = v.records(ctx, onRecord)
	}
	if damage := <-checked; damage != nil { // which comes before whatever was read of it
		v.callback = nil
		return damage
	}
	return err
}

// check lets SQLite look at its own structures, on a connection of its own, because that takes as
// long as reading does. What is read the chain proves; this proves that SQLite will not overwrite
// it, misled by a damaged list of free pages.
func (v *verifier) check(ctx context.Context) error {
	db, err := open(ctx, v.path, "ro")
	if err != nil {
		return err
	}
	defer db.close()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return v.refuse(remedyDamage, "SQLite's check says %q", verdict)
	}
	return nil
}

func (v *verifier) format(ctx context.Context) error {
	var version, tables int
	if err := v.db.QueryRowContext(ctx,
		"SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").Scan(&version, &tables); err != nil {
		return err
	}
	v.fresh = version == 0 && tables == 0
	switch {
	case version > format:
		return v.refuse(remedyNewer, "its format is %d, this version knows %d", version, format)
	case version != format && !v.fresh:
		return v.refuse(remedyDamage, "its format is %d, which no journal ever had", version)
	}
	return nil
}

func (v *verifier) snapshot(ctx context.Context, onSnapshot func(journal.Head, []byte) error) error {
	var first, last int64
	var hash, seal []byte
	row := v.db.QueryRowContext(ctx, "SELECT lineage, revision, hash, first, last, seal FROM base")
	if err := row.Scan(&v.base.Lineage, &v.base.Revision, &hash, &first, &last, &seal); err != nil {
		return err
	}
	copy(v.base.Hash[:], hash)
	state, err := v.state(ctx, first, last)
	if err != nil {
		return err
	}
	sealed := make(chan bool, 1)
	go func() { // beside the callback: what that is told counts only if it was right
		want := v.base.Seal(state)
		sealed <- bytes.Equal(seal, want[:])
	}()
	var said error
	if len(state) > 0 {
		said = onSnapshot(v.base, state)
	}
	if !<-sealed {
		return v.refuse(remedyDamage, "the snapshot at revision %d, %d bytes, does not match its seal", v.base.Revision,
			len(state))
	}
	v.pass(v.base)
	v.callback = said
	return v.callback
}

func (v *verifier) state(ctx context.Context, first, last int64) (state []byte, err error) {
	var size int
	if err := v.db.QueryRowContext(ctx, "SELECT coalesce(sum(length(bytes)), 0) FROM state WHERE part BETWEEN ? AND ?",
		first, last).Scan(&size); err != nil {
		return nil, err
	}
	state = make([]byte, 0, size)
	rows, err := v.db.QueryContext(ctx, "SELECT bytes FROM state WHERE part BETWEEN ? AND ? ORDER BY part", first, last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var part sql.RawBytes
		if err := rows.Scan(&part); err != nil {
			return nil, err
		}
		state = append(state, part...)
	}
	return state, rows.Err()
}

// ahead is how many records are read and verified ahead of the one that is replayed.
const ahead = 4

func (v *verifier) records(ctx context.Context, onRecord func(journal.Record) error) error {
	verified := make(chan journal.Record, ahead)
	replay, ctx := errgroup.WithContext(ctx)
	replay.Go(func() error {
		for record := range verified {
			if err := onRecord(record); err != nil {
				return err
			}
		}
		return nil
	})
	err := v.follow(ctx, verified)
	close(verified)
	v.callback = replay.Wait()
	return cmp.Or(v.callback, err)
}

// follow reads the records, and passes on those that continue the chain.
func (v *verifier) follow(ctx context.Context, verified chan<- journal.Record) error {
	rows, err := v.db.QueryContext(ctx, "SELECT revision, hash, events FROM records WHERE revision > ? ORDER BY revision",
		int64(v.base.Revision))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var revision uint64
		var hash sql.RawBytes
		var encoded []byte
		if err := rows.Scan(&revision, &hash, &encoded); err != nil {
			return err
		}
		next, events, err := v.head.Follow(revision, hash, encoded)
		if err != nil {
			return v.refuse(remedyDamage, "%v", err)
		}
		v.pass(next)
		select {
		case verified <- journal.Record{Revision: revision, Events: events}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return rows.Err()
}

func (v *verifier) pass(head journal.Head) {
	v.head = head
	v.marked = v.marked || v.said != nil && *v.said == head
}

func (v *verifier) refuse(remedy, format string, args ...any) error {
	return &journal.RefusedError{Where: v.path, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

// compare refuses a database that is not what its head file says.
func (c *content) compare(path string, said mark) error {
	refused := &journal.RefusedError{Where: path, Remedy: remedyHead}
	switch {
	case said.damaged:
		refused.Found = "its head file is damaged"
	case c.marked, said.head == nil && c.head.Revision == 0:
		return nil // the second: a new journal, or one that a crash left before its head file was written
	case said.head == nil:
		refused.Found = "it has no head file"
	default:
		refused.Found = fmt.Sprintf("it holds %v to %v, but its head file says that %v was committed", c.base, c.head,
			said.head)
		refused.Remedy = remedyMissing
	}
	return refused
}

// describe tells a damaged journal from one that cannot be reached.
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
	case errors.As(err, &failure) && failure.Code() != sqlite3.SQLITE_IOERR_SHORT_READ: // which is a file cut short
		switch failure.Code() & 0xff { // the rest is the extended code
		case sqlite3.SQLITE_BUSY:
			return &journal.RefusedError{Where: path, Found: "another process has it open", Remedy: remedyInUse}
		case sqlite3.SQLITE_READONLY:
			return &journal.RefusedError{Where: path, Found: err.Error(), Remedy: remedyReadOnly}
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
			sqlite3.SQLITE_INTERRUPT:
			return fmt.Errorf("open journal %s: %w", path, err)
		}
	}
	return &journal.RefusedError{Where: path, Found: err.Error(), Remedy: remedyDamage}
}
