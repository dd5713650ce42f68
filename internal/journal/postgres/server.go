package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bourse-dev/bourse/internal/journal"
)

// oldest is the first PostgreSQL that has what Lead needs (idle_session_timeout), as server_version_num.
const oldest = 140000

// place is what tells this database from a copy of it: server, database and timeline.
const place = `(SELECT concat_ws('/', s.system_identifier, d.oid, left(pg_walfile_name(pg_current_wal_lsn()), 8))
	FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())`

// session is what our sessions ask of the server, unless the URL says otherwise: that what is
// committed is kept, and that nobody who stands still or is cut off keeps others waiting for what
// he has locked.
var session = map[string]string{
	"synchronous_commit": "on",
	"application_name":   "bourse broker",

	"lock_timeout":                        "60s",
	"idle_in_transaction_session_timeout": "60s",
	"tcp_user_timeout":                    "30s",
	"tcp_keepalives_idle":                 "10s",
}

// New returns the journal in the database of a URL, postgres://USER@HOST/DATABASE?KEY=VALUE, with the keys of
// libpq; a password is better in PGPASSWORD or ~/.pgpass than in it. Several hosts may be named. The first
// Load makes the tables. An error does not repeat the URL's password.
func New(url string) (*Journal, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	switch said := config.RuntimeParams["synchronous_commit"]; said {
	case "", "on", "remote_apply":
	default:
		return nil, fmt.Errorf("synchronous_commit=%s loses what was acknowledged, want on or remote_apply", said)
	}
	for name, value := range session {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	return &Journal{config: config}, nil
}

// connect opens a session with a server that keeps what it says it committed.
func (j *Journal) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, j.config)
	if err == nil {
		if err = j.trust(ctx, conn); err == nil {
			return conn, nil
		}
		hangUp(conn)
	}
	return nil, j.describe(err)
}

// trust refuses a server that does not keep what it commits.
func (j *Journal) trust(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var fsync, pages, commit string
	var replica bool
	var schema *string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_commit'), pg_is_in_recovery(), current_schema()`).Scan(&version, &fsync, &pages, &commit, &replica, &schema)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return j.refused("its version is older than PostgreSQL 14", "upgrade it")
	case fsync != "on":
		return j.refused("the server runs with fsync = off: what it commits is lost with its machine",
			"set fsync = on in postgresql.conf and reload it")
	case pages != "on":
		return j.refused("the server runs with full_page_writes = off: a page torn by a crash stays torn",
			"set full_page_writes = on in postgresql.conf and reload it")
	case commit != "on" && commit != "remote_apply":
		return j.refused("our session has synchronous_commit = "+commit,
			"connect without a pooler, which drops what a session asks for")
	case replica:
		return j.refused("the server is a replica, which cannot be written to",
			"name the primary, or several hosts and target_session_attrs=read-write")
	case schema == nil:
		return j.refused("there is no schema to make tables in", "make the one that search_path names: CREATE SCHEMA")
	}
	return nil
}

// describe tells a damaged journal from one that cannot be reached.
func (j *Journal) describe(err error) error {
	if err == nil {
		return nil
	}
	if refused := (*journal.RefusedError)(nil); errors.As(err, &refused) {
		return err
	}
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && len(said.Code) == 5 &&
		said.Code[:2] == "XX" { // corrupted pages and indexes among them
		return j.refused(said.Message, remedyDamage)
	}
	return fmt.Errorf("open journal %s: %w", j.Where(), err)
}

func (j *Journal) refused(found, remedy string) error {
	return &journal.RefusedError{Where: j.Where(), Found: found, Remedy: remedy}
}
