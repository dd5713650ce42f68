package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// oldest is the first PostgreSQL with idle_session_timeout, which Lead needs, as server_version_num.
const oldest = 140000

// place tells this database from a copy of it: server, database and timeline.
const place = `(SELECT concat_ws('/', s.system_identifier, d.oid, left(pg_walfile_name(pg_current_wal_lsn()), 8))
	FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())`

// parameters are the settings of our sessions, unless the URL sets others. Commits are durable, and a
// session that is stalled or cut off does not keep its locks for long.
var parameters = map[string]string{
	"synchronous_commit": "on",
	"application_name":   "bourse broker",

	"lock_timeout":                        "60s",
	"idle_in_transaction_session_timeout": "60s",
	"tcp_user_timeout":                    "30s",
	"tcp_keepalives_idle":                 "10s",
}

// New returns the journal in the database of a URL, postgres://USER@HOST/DATABASE?KEY=VALUE, with the keys
// and the several hosts that libpq allows. Put a password into PGPASSWORD or ~/.pgpass rather than into the
// URL. The first Load creates the tables. No error contains the password.
func New(url string) (*Journal, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	switch setting := config.RuntimeParams["synchronous_commit"]; setting {
	case "", "on", "remote_apply":
	default:
		return nil, fmt.Errorf("synchronous_commit=%s loses acknowledged events, want on or remote_apply", setting)
	}
	for name, value := range parameters {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	return &Journal{config: config, Journal: tables.Journal{Options: tables.Options{
		Queries: queries, PartSize: partSize, Patience: patience,
		Where: fmt.Sprintf("postgres://%s@%s/%s", config.User, config.Host, config.Database), // without its password
	}}}, nil
}

// connect opens a session with a server whose commits are durable.
func (j *Journal) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pool := stdlib.OpenDB(*j.config)
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, j.describe(errors.Join(err, pool.Close()))
	}
	s := &session{Conn: conn, pool: pool, where: j.Where}
	if err := j.trust(ctx, s); err != nil {
		_ = s.Close()
		return nil, j.describe(err)
	}
	return s, nil
}

// trust refuses a server whose commits are not durable.
func (j *Journal) trust(ctx context.Context, s *session) error {
	var version int
	var fsync, pages, commit string
	var replica bool
	var schema *string
	row := s.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
		current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery(),
		current_schema()`)
	switch err := row.Scan(&version, &fsync, &pages, &commit, &replica, &schema); {
	case err != nil:
		return err
	case version < oldest:
		return j.refused("its version is older than PostgreSQL 14", "upgrade it")
	case fsync != "on":
		return j.refused("the server runs with fsync = off: its commits are lost with its machine",
			"set fsync = on in postgresql.conf and reload it")
	case pages != "on":
		return j.refused("the server runs with full_page_writes = off: a page torn by a crash stays torn",
			"set full_page_writes = on in postgresql.conf and reload it")
	case commit != "on" && commit != "remote_apply":
		return j.refused("our session has synchronous_commit = "+commit,
			"connect without a pooler, which drops the settings of a session")
	case replica:
		return j.refused("the server is a replica, which cannot be written to",
			"name the primary, or several hosts and target_session_attrs=read-write")
	case schema == nil:
		return j.refused("there is no schema to create tables in", "create the one that search_path names: CREATE SCHEMA")
	}
	return nil
}

// describe returns the error for a damaged journal, or for one that cannot be reached.
func (j *Journal) describe(err error) error {
	if err == nil {
		return nil
	}
	if refused := (*journal.RefusedError)(nil); errors.As(err, &refused) {
		return err
	}
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) && len(failure.Code) == 5 &&
		failure.Code[:2] == "XX" { // corrupted pages and indexes among them
		return j.refused(failure.Message, remedyDamage)
	}
	return fmt.Errorf("open journal %s: %w", j.Where, err)
}

func (j *Journal) refused(found, remedy string) error {
	return tables.Refused(j.Where, remedy, "%s", found)
}
