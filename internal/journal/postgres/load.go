package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bourse-dev/bourse/internal/journal"
)

// format is kept in the journal's row: 1 since the first release.
const format = 1

// The state of a snapshot is in parts (see Snapshot): those from first to last are base's, others are left
// over. So are records up to base's revision. Most of the first table's page stays free, for the new versions
// of its row.
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

// What an operator can do.
const (
	acceptLoss   = "run `bourse broker journal accept-loss` with the same --store, which keeps what is there and starts a new lineage"
	remedyInUse  = "stop the other process first"
	remedyNewer  = "start the version of bourse that wrote it, or a later one"
	remedyDamage = "restore the database's own newest backup and " +
		acceptLoss + ", or put a backup of `bourse broker backup` into an empty database with `bourse broker restore`"
	remedyPlace = "connect to the database that the broker last used; if that is gone, or this is its replica that was promoted, " + acceptLoss
)

// ErrNone: no journal was ever made in the database.
var ErrNone = errors.New("there is no journal in the database")

// Load implements journal.Journal, and makes j the journal's only writer.
func (j *Journal) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	return j.load(ctx, onSnapshot, onRecord, false)
}

// AcceptLoss makes a journal usable that verifies but is in another place than it was: a backup
// that was put back, a promoted replica. It starts a new lineage and returns its head. No broker
// may lead. Errors: as Load; ErrNone, wrapped.
func (j *Journal) AcceptLoss(ctx context.Context) (journal.Head, error) {
	if err := j.alone(ctx); err != nil {
		return journal.Head{}, err
	}
	if _, err := j.read(ctx, ignoreState, ignoreRecord, true); err != nil {
		return journal.Head{}, err
	}
	head, err := j.load(ctx, ignoreState, ignoreRecord, true)
	if err != nil {
		return journal.Head{}, err
	}
	return j.NewLineage(ctx, head)
}

func ignoreState(journal.Head, []byte) error { return nil }
func ignoreRecord(journal.Record) error      { return nil }

// Read verifies and replays the journal like Load, but makes nobody its writer, and changes
// nothing: it may be called beside a broker that leads. Errors: as Load; ErrNone, wrapped.
func (j *Journal) Read(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	return j.read(ctx, onSnapshot, onRecord, false)
}

func (j *Journal) read(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error, lossy bool) (journal.Head, error) {
	conn, err := j.connect(ctx)
	if err != nil {
		return journal.Head{}, err
	}
	defer hangUp(conn)
	v := verifier{Journal: j, lossy: lossy}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
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
	return v.head, nil
}

func (j *Journal) load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error, lossy bool) (journal.Head, error) {
	j.whole.Lock()
	defer j.whole.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disconnect()
	conn, err := j.connect(ctx)
	if err != nil {
		return journal.Head{}, err
	}
	writer := rand.Text()
	v := verifier{Journal: j, lossy: lossy}
	for overtaken := true; overtaken; {
		// All in one transaction, which locks the row first: one state of the journal, and nobody's append
		// between it and the new writer. An append that is faster than the lock makes it begin again.
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			if err := v.run(ctx, tx, "FOR UPDATE", onSnapshot, onRecord); err != nil {
				return err
			}
			if v.fresh {
				if err := v.create(ctx, tx); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, "UPDATE bourse_journal SET writer = $1", writer)
			return err
		})
		said := (*pgconn.PgError)(nil)
		overtaken = errors.As(err, &said) && said.Code == "40001" && !v.replays
	}
	if err != nil {
		hangUp(conn)
		return journal.Head{}, v.describe(err)
	}
	j.conn, j.writer, j.base, j.head = conn, writer, v.base, v.head
	return j.head, nil
}

// verifier is one reading of a journal.
type verifier struct {
	*Journal
	lossy      bool
	fresh      bool // no journal was ever made here
	replays    bool // a callback may have been called
	base, head journal.Head

	callback error // what a callback returned
}

func (v *verifier) describe(err error) error {
	if v.callback != nil {
		return fmt.Errorf("replay journal %s: %w", v.Where(), v.callback)
	}
	return v.Journal.describe(err)
}

// run reads the whole journal, recomputes its chain and replays it.
func (v *verifier) run(ctx context.Context, tx pgx.Tx, lock string, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) error {
	var journals, others bool
	if err := tx.QueryRow(ctx,
		"SELECT to_regclass('bourse_journal') IS NOT NULL, coalesce(to_regclass('bourse_records'), to_regclass('bourse_state')) IS NOT NULL").Scan(&journals, &others); err != nil {
		return err
	}
	if v.fresh = !journals && !others; v.fresh {
		return nil
	}
	if !journals {
		return v.refused("the table bourse_journal is gone", remedyDamage)
	}
	// The format first, because what else a later version has is not known.
	var version int
	if err := tx.QueryRow(ctx, "SELECT format FROM bourse_journal "+lock).Scan(&version); errors.Is(err, pgx.ErrNoRows) {
		return v.refused("the row of bourse_journal is gone", remedyDamage)
	} else if err != nil {
		return err
	}
	if version != format {
		return v.refused(fmt.Sprintf("its format is %d, this version knows %d", version, format), remedyNewer)
	}
	var was, is string
	var revision, first, last int64
	var hash, baseHash, seal []byte
	if err := tx.QueryRow(ctx,
		"SELECT place, "+place+", lineage, revision, hash, base_revision, base_hash, first, last, seal FROM bourse_journal").Scan(
		&was, &is, &v.base.Lineage, &revision, &hash, &v.base.Revision, &baseHash, &first, &last, &seal); err != nil {
		return err
	}
	if was != is && !v.lossy {
		return v.refused(fmt.Sprintf("it was last used in another place (server/database/timeline): %s, this is %s; what was acknowledged since the copy was made is not in it", was, is), remedyPlace)
	}
	copy(v.base.Hash[:], baseHash)
	v.replays = true
	if err := v.snapshot(ctx, tx, first, last, seal, onSnapshot); err != nil {
		return err
	}
	if err := v.records(ctx, tx, onRecord); err != nil {
		return err
	}
	if int64(v.head.Revision) != revision || !bytes.Equal(v.head.Hash[:], hash) {
		return v.refused(fmt.Sprintf("its records lead to %v, its row says revision %d (hash %.4x)", v.head, revision,
			hash), remedyDamage)
	}
	return nil
}

func (v *verifier) snapshot(ctx context.Context, tx pgx.Tx, first, last int64, seal []byte,
	onSnapshot func(journal.Head, []byte) error) error {
	rows, err := tx.Query(ctx, "SELECT bytes FROM bourse_state WHERE part BETWEEN $1 AND $2 ORDER BY part", first, last)
	if err != nil {
		return err
	}
	defer rows.Close()
	var state []byte
	for rows.Next() {
		state = append(state, rows.RawValues()[0]...)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if want := v.base.Seal(state); !bytes.Equal(seal, want[:]) {
		return v.refused(fmt.Sprintf("the snapshot at revision %d, %d bytes, does not match its seal", v.base.Revision,
			len(state)), remedyDamage)
	}
	v.head = v.base
	if len(state) > 0 {
		v.callback = onSnapshot(v.base, state)
	}
	return v.callback
}

func (v *verifier) records(ctx context.Context, tx pgx.Tx, onRecord func(journal.Record) error) error {
	rows, err := tx.Query(ctx, "SELECT revision, hash, events FROM bourse_records WHERE revision > $1 ORDER BY revision",
		int64(v.base.Revision))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var revision uint64
		var hash, encoded []byte
		if err := rows.Scan(&revision, &hash, &encoded); err != nil {
			return err
		}
		next, events, err := v.head.Follow(revision, hash, encoded)
		if err != nil {
			return v.refused(err.Error(), remedyDamage)
		}
		v.head = next
		if v.callback = onRecord(journal.Record{Revision: revision, Events: events}); v.callback != nil {
			return v.callback
		}
	}
	return rows.Err()
}

// create makes an empty journal.
func (v *verifier) create(ctx context.Context, tx pgx.Tx) error {
	genesis := journal.Genesis()
	seal := genesis.Seal(nil)
	if _, err := tx.Exec(ctx, schema); err != nil {
		return err
	}
	v.base, v.head = genesis, genesis
	_, err := tx.Exec(ctx, "INSERT INTO bourse_journal VALUES ($1, "+place+", '', $2, 0, $3, 0, $3, 1, 0, $4)", format,
		genesis.Lineage, genesis.Hash[:], seal[:])
	return err
}
