package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// format is in the journal's row. It is 1 since the first release.
const format = 1

// See package tables for parts of a snapshot. Most of the first table's page stays free, for the new
// versions of its row.
const schema = `
	CREATE TABLE bourse_journal (
		format        int    NOT NULL,
		place         text   NOT NULL,
		writer        text   NOT NULL,
		lineage       text   NOT NULL,
		revision      bigint NOT NULL,
		hash          bytea  NOT NULL,
		base_revision bigint NOT NULL,
		base_hash     bytea  NOT NULL,
		first         bigint NOT NULL,
		last          bigint NOT NULL,
		seal          bytea  NOT NULL
	) WITH (fillfactor = 10);
	CREATE UNIQUE INDEX bourse_journal_is_one ON bourse_journal ((true));
	CREATE TABLE bourse_state   (part bigint PRIMARY KEY, bytes bytea NOT NULL);
	CREATE TABLE bourse_records (revision bigint PRIMARY KEY, hash bytea NOT NULL, events bytea NOT NULL);`

// Remedies for an operator.
const (
	acceptLoss = "run `bourse broker journal accept-loss` with the same --store, which keeps the existing events and " +
		"starts a new lineage"
	remedyDamage = "restore the database's own newest backup and " +
		acceptLoss + ", or put a backup of `bourse broker backup` into an empty database with `bourse broker restore`"
	remedyPlace = "connect to the database that the broker last used; if that is gone, or this is its replica that " +
		"was promoted, " + acceptLoss
)

// ErrNone: the database has no journal.
var ErrNone = errors.New("there is no journal in the database")

// Load implements journal.Journal. It makes j the journal's only writer.
func (j *Journal) Load(ctx context.Context, onSnapshot tables.OnSnapshot,
	onRecord tables.OnRecord) (journal.Head, error) {
	return j.load(ctx, onSnapshot, onRecord, false)
}

// AcceptLoss makes a journal usable that verifies but is in another place than before: a restored
// backup, a promoted replica. It starts a new lineage and returns its head. No broker may lead. Errors:
// as Load; ErrNone, wrapped.
func (j *Journal) AcceptLoss(ctx context.Context) (journal.Head, error) {
	if err := j.takeLead(ctx); err != nil {
		return journal.Head{}, err
	}
	if _, err := j.read(ctx, tables.IgnoreState, tables.IgnoreRecord, true); err != nil {
		return journal.Head{}, err
	}
	head, err := j.load(ctx, tables.IgnoreState, tables.IgnoreRecord, true)
	if err != nil {
		return journal.Head{}, err
	}
	return j.NewLineage(ctx, head)
}

// Begin makes a journal without events begin at the snapshot of another journal. Load it after that.
// No broker may lead. Errors: ErrConflict if the journal has events; otherwise as Load and Snapshot.
func (j *Journal) Begin(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	if err := j.takeLead(ctx); err != nil {
		return err
	}
	if _, err := j.Load(ctx, tables.IgnoreState, tables.IgnoreRecord); err != nil {
		return err
	}
	return j.BeginAt(ctx, head, write)
}

// Read verifies and replays the journal like Load, but changes nothing, also not the writer. It may run
// beside a broker that leads. Errors: as Load; ErrNone, wrapped.
func (j *Journal) Read(ctx context.Context, onSnapshot tables.OnSnapshot,
	onRecord tables.OnRecord) (journal.Head, error) {
	return j.read(ctx, onSnapshot, onRecord, false)
}

func (j *Journal) read(ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
	lossy bool) (journal.Head, error) {
	s, err := j.connect(ctx)
	if err != nil {
		return journal.Head{}, err
	}
	defer s.Close()
	v := j.verifier(lossy)
	err = s.inTransaction(ctx, true, func(tx *sql.Tx) error {
		if err := v.run(ctx, tx, "", onSnapshot, onRecord); err != nil {
			return err
		}
		if v.fresh {
			return ErrNone
		}
		return nil
	})
	if err != nil {
		return journal.Head{}, v.describe(err)
	}
	return v.Head, nil
}

func (j *Journal) load(ctx context.Context, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
	lossy bool) (journal.Head, error) {
	return j.Open(func() (tables.Database, journal.Head, journal.Head, error) {
		s, err := j.connect(ctx)
		if err != nil {
			return nil, journal.Head{}, journal.Head{}, err
		}
		v, err := j.take(ctx, s, onSnapshot, onRecord, lossy)
		if err != nil {
			_ = s.Close()
			return nil, journal.Head{}, journal.Head{}, v.describe(err)
		}
		return s, v.Base, v.Head, nil
	})
}

// take verifies the journal and makes the session its writer. All of it is in one transaction, which locks
// the row first: it sees one state of the journal, without another's append before the new writer. If an
// append is faster than the lock, it begins again.
func (j *Journal) take(ctx context.Context, s *session, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord,
	lossy bool) (*verifier, error) {
	writer := rand.Text()
	for {
		v := j.verifier(lossy)
		err := s.inTransaction(ctx, false, func(tx *sql.Tx) error {
			if err := v.run(ctx, tx, "FOR UPDATE", onSnapshot, onRecord); err != nil {
				return err
			}
			if v.fresh {
				if err := v.create(ctx, tx); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "UPDATE bourse_journal SET writer = $1", writer)
			return err
		})
		if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) && failure.Code == "40001" && !v.replays {
			continue // a serialization failure
		}
		s.writer = writer
		return v, err
	}
}

// inTransaction runs do in a transaction that sees one state of the database.
func (s *session) inTransaction(ctx context.Context, readOnly bool, do func(*sql.Tx) error) error {
	tx, err := s.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: readOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// verifier is one reading of a journal.
type verifier struct {
	*Journal
	tables.Reading
	lossy   bool
	fresh   bool // the database has no journal
	replays bool // a callback may have been called
}

func (j *Journal) verifier(lossy bool) *verifier {
	return &verifier{Journal: j, lossy: lossy, Reading: tables.Reading{Queries: queries,
		Refuse: func(found string, args ...any) error { return tables.Refused(j.Where, remedyDamage, found, args...) }}}
}

func (v *verifier) describe(err error) error {
	if v.Callback != nil {
		return fmt.Errorf("replay journal %s: %w", v.Where, v.Callback)
	}
	return v.Journal.describe(err)
}

// run reads the whole journal, recomputes its chain and replays it.
func (v *verifier) run(ctx context.Context, tx *sql.Tx,
	lock string, onSnapshot tables.OnSnapshot, onRecord tables.OnRecord) error {
	var journals, others bool
	found := tx.QueryRowContext(ctx, `SELECT to_regclass('bourse_journal') IS NOT NULL,
		coalesce(to_regclass('bourse_records'), to_regclass('bourse_state')) IS NOT NULL`)
	if err := found.Scan(&journals, &others); err != nil {
		return err
	}
	if v.fresh = !journals && !others; v.fresh {
		return nil
	}
	if !journals {
		return v.Refuse("the table bourse_journal is gone")
	}
	// The format comes first: a later version may have other columns.
	var version int
	err := tx.QueryRowContext(ctx, "SELECT format FROM bourse_journal "+lock).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return v.Refuse("the row of bourse_journal is gone")
	case err != nil:
		return err
	case version != format:
		return tables.Refused(v.Where, tables.RemedyNewer, "its format is %d, this version knows %d", version, format)
	}
	var was, got string
	var revision, first, last int64
	var hash, baseHash, seal []byte
	row := tx.QueryRowContext(ctx, `SELECT place, `+place+`, lineage, revision, hash, base_revision, base_hash,
		first, last, seal FROM bourse_journal`)
	err = row.Scan(&was, &got, &v.Base.Lineage, &revision, &hash, &v.Base.Revision, &baseHash, &first, &last, &seal)
	if err != nil {
		return err
	}
	if was != got && !v.lossy {
		return tables.Refused(v.Where, remedyPlace, "it was last used in another place "+
			"(server/database/timeline): %s, this is %s; events that were acknowledged since the copy was made are missing",
			was, got)
	}
	copy(v.Base.Hash[:], baseHash)
	v.replays = true
	if err := v.Replay(ctx, tx, first, last, seal, onSnapshot, onRecord); err != nil {
		return err
	}
	if int64(v.Head.Revision) != revision || !bytes.Equal(v.Head.Hash[:], hash) {
		return v.Refuse("its records lead to %v, its row says revision %d (hash %.4x)", v.Head, revision, hash)
	}
	return nil
}

// create makes an empty journal.
func (v *verifier) create(ctx context.Context, tx *sql.Tx) error {
	genesis := journal.Genesis()
	seal := genesis.Seal(nil)
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	v.Base, v.Head = genesis, genesis
	_, err := tx.ExecContext(ctx,
		"INSERT INTO bourse_journal VALUES ($1, "+place+", '', $2, 0, $3, 0, $3, 1, 0, $4)", format,
		genesis.Lineage, genesis.Hash[:], seal[:])
	return err
}
