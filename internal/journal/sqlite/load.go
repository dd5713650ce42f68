package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Load implements journal.Journal.
func (j *Journal) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.load(ctx, onSnapshot, onRecord, false)
	if err == nil {
		err = errors.Join(j.mark.write(j.head), j.mark.Sync())
	}
	if err != nil {
		return journal.Head{}, errors.Join(err, j.close())
	}
	return j.head, nil
}

// AcceptLoss makes a journal usable that verifies but is not what its head file says: an older copy, a
// backup put back, a WAL cut short by damage. It starts a new lineage and returns its head. No other
// process may have the journal open. Errors: as Load; os.ErrNotExist, wrapped, where there is none.
func (j *Journal) AcceptLoss(ctx context.Context) (head journal.Head, err error) {
	defer func() { err = errors.Join(err, j.Close()) }()
	if _, err := os.Stat(j.path); err != nil {
		return head, err
	}
	if err := j.load(ctx, ignoreState, ignoreRecord, true); err != nil {
		return head, err
	}
	return j.NewLineage(ctx, j.head)
}

func ignoreState(journal.Head, []byte) error { return nil }
func ignoreRecord(journal.Record) error      { return nil }

// Read verifies and replays the journal like Load, but changes no file and leaves j as it was. No other
// process may have the journal open. Errors: as Load; os.ErrNotExist, wrapped, where there is none.
func (j *Journal) Read(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	said, err := readHeadFile(j.path + ".head")
	if err != nil {
		return journal.Head{}, err
	}
	found, err := verify(ctx, j.path, said.head, onSnapshot, onRecord)
	if err == nil && !found.fresh {
		err = found.compare(j.path, said)
	}
	if err == nil && found.fresh {
		err = &os.PathError{Op: "read journal", Path: j.path, Err: os.ErrNotExist}
	}
	if err != nil {
		return journal.Head{}, err
	}
	return found.head, nil
}

// load verifies the journal on a connection that cannot write, and only then opens it for writing. The
// head file, which counts unless losses are accepted, is read first, lest it seem to lead because
// somebody appended in between.
func (j *Journal) load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error, lossy bool) error {
	if err := errors.Join(j.failed, j.close()); err != nil {
		return err
	}
	said, err := readHeadFile(j.path + ".head")
	if err != nil {
		return err
	}
	found, err := verify(ctx, j.path, said.head, onSnapshot, onRecord)
	if err == nil && !lossy {
		err = found.compare(j.path, said)
	}
	if err != nil {
		return err
	}
	return describe(j.path, j.open(ctx, found, said.writes))
}

// open opens for writing what verify found.
func (j *Journal) open(ctx context.Context, found *content, writes uint64) (err error) {
	// Made here and not by SQLite, for its mode; the files beside it get the same from SQLite.
	if file, err := os.OpenFile(j.path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		file.Close()
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	if j.db, err = open(ctx, j.path, "rw"); err != nil {
		return err
	}
	if err := j.db.configure(ctx); err != nil {
		return err
	}
	os.Remove(j.path + "-shm") // verify's, which nobody can be using any more
	if found.fresh {
		if found.head, err = j.db.create(ctx); err != nil {
			return err
		}
		found.base = found.head
	}
	// Nobody else can write any more; somebody could since verify.
	if err := j.db.expect(ctx, int64(found.head.Revision),
		"SELECT max(revision) FROM (SELECT revision FROM base UNION ALL SELECT max(revision) FROM records)"); err != nil {
		return &journal.RefusedError{Where: j.path, Found: "another process writes to it: " + err.Error(),
			Remedy: remedyInUse}
	}
	// Whether the file can be written must show now, not with the first append.
	if _, err := j.db.ExecContext(ctx, "UPDATE base SET lineage = lineage"); err != nil {
		return err
	}
	// A process that was killed may leave commits that were never synced. What Load returned must
	// not get lost any more, and the head file must not name it before: this syncs WAL and database.
	var busy, frames, moved int
	if err := j.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil ||
		busy != 0 {
		return errors.Join(err, errors.New("the WAL could not be moved into the database"))
	}
	if j.db.insert, err = j.db.PrepareContext(ctx, "INSERT INTO records VALUES (?, ?, ?)"); err != nil {
		return err
	}
	if j.mark, err = openHeadFile(j.path+".head", writes); err != nil {
		return err
	}
	j.base, j.head = found.base, found.head
	return syncFolder(filepath.Dir(j.path))
}

// syncFolder makes the names of new files durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
