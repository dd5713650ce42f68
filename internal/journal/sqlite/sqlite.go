// Package sqlite keeps a journal in an SQLite file: the broker's default.
//
// A journal at PATH consists of PATH, PATH-wal (while it is open, and after a crash) and PATH.head,
// which detects losses that SQLite cannot notice (see headFile). An append is one INSERT in WAL mode
// with synchronous=FULL: durable when it returns.
package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// Journal is a journal.Journal in a file. One process uses it at a time: SQLite's own lock ends with
// the process.
type Journal struct {
	tables.Journal
	path string
}

var _ journal.Journal = (*Journal)(nil)

// New returns the journal at path. Its folder must exist; the first Load makes the files.
func New(path string) *Journal {
	return &Journal{path: path, Journal: tables.Journal{Options: tables.Options{
		Queries: queries, Where: path, PartSize: partSize, FailsForGood: true,
	}}}
}

// Load implements journal.Journal.
func (j *Journal) Load(
	ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
) (journal.Head, error) {
	return j.load(ctx, onSnapshot, onRecord, false)
}

// AcceptLoss makes a journal usable that verifies but differs from its head file: an older copy, a
// backup, a damaged WAL. It starts a new lineage and returns its head. No other process may have the
// journal open. Errors: as Load; os.ErrNotExist, wrapped, if there is no journal.
func (j *Journal) AcceptLoss(ctx context.Context) (head journal.Head, err error) {
	defer func() { err = errors.Join(err, j.Close()) }()
	if _, err := os.Stat(j.path); err != nil {
		return head, err
	}
	if head, err = j.load(ctx, tables.IgnoreState, tables.IgnoreRecord, true); err != nil {
		return head, err
	}
	return j.NewLineage(ctx, head)
}

// Begin makes a journal without events begin at the snapshot of another journal. Errors: ErrConflict
// if the journal has events; otherwise as Load and Snapshot.
func (j *Journal) Begin(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	if _, err := j.Load(ctx, tables.IgnoreState, tables.IgnoreRecord); err != nil {
		return err
	}
	return j.BeginAt(ctx, head, write)
}

// Read verifies and replays the journal like Load, but changes no file and does not open j. No other
// process may have the journal open. Errors: as Load; os.ErrNotExist, wrapped, if there is no journal.
func (j *Journal) Read(
	ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
) (journal.Head, error) {
	found, mark, err := j.verify(ctx, onSnapshot, onRecord)
	if err == nil && !found.fresh {
		err = found.compare(j.path, mark)
	}
	if err == nil && found.fresh {
		err = &os.PathError{Op: "read journal", Path: j.path, Err: os.ErrNotExist}
	}
	if err != nil {
		return journal.Head{}, err
	}
	return found.Head, nil
}

func (j *Journal) load(ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
	lossy bool) (journal.Head, error) {
	return j.Open(func() (tables.Database, journal.Head, journal.Head, error) {
		found, mark, err := j.verify(ctx, onSnapshot, onRecord)
		if err == nil && !lossy {
			err = found.compare(j.path, mark)
		}
		if err != nil {
			return nil, journal.Head{}, journal.Head{}, err
		}
		db, err := j.open(ctx, found, mark.writes)
		if err == nil && !lossy {
			err = errors.Join(db.mark.write(found.Head), db.mark.Sync())
		}
		if err != nil && db != nil {
			err = errors.Join(err, db.Close())
		}
		return db, found.Base, found.Head, describe(j.path, err)
	})
}

// verify verifies the journal on a connection that cannot write. It reads the head file first: an append
// in between must not make the head file seem to lead.
func (j *Journal) verify(
	ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
) (*content, mark, error) {
	kept, err := readHeadFile(j.path + ".head")
	if err != nil {
		return nil, mark{}, err
	}
	found, err := verify(ctx, j.path, kept.head, onSnapshot, onRecord)
	return found, kept, err
}

// open opens the verified journal for writing.
func (j *Journal) open(ctx context.Context, found *content, writes uint64) (db *database, err error) {
	// SQLite would create the file with another mode. It gives this mode to the files beside it.
	if file, err := os.OpenFile(j.path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		file.Close()
	} else if !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if db, err = open(ctx, j.path, "rw"); err != nil {
		return nil, err
	}
	if err := db.configure(ctx); err != nil {
		return db, err
	}
	os.Remove(j.path + "-shm") // it is verify's, and no longer used
	if found.fresh {
		if found.Head, err = db.create(ctx); err != nil {
			return db, err
		}
		found.Base = found.Head
	}
	// From here on nobody else can write. Since verify somebody could.
	if err := db.checkValue(ctx, int64(found.Head.Revision),
		"SELECT max(revision) FROM (SELECT revision FROM base UNION ALL SELECT max(revision) FROM records)"); err != nil {
		return db, tables.Refused(j.path, tables.RemedyInUse, "another process writes to it: %v", err)
	}
	// A file that cannot be written must be an error now, not at the first append.
	if _, err := db.ExecContext(ctx, "UPDATE base SET lineage = lineage"); err != nil {
		return db, err
	}
	// A killed process may leave commits that were never synced. Load must not return events that can
	// still get lost, and the head file must not name them. This syncs WAL and database.
	var busy, frames, moved int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil ||
		busy != 0 {
		return db, errors.Join(err, errors.New("the WAL could not be moved into the database"))
	}
	if db.insert, err = db.PrepareContext(ctx, "INSERT INTO records VALUES (?, ?, ?)"); err != nil {
		return db, err
	}
	if db.mark, err = openHeadFile(j.path+".head", writes); err != nil {
		return db, err
	}
	return db, syncFolder(filepath.Dir(j.path))
}

// syncFolder makes the names of new files durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
