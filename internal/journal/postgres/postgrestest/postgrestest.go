// Package postgrestest runs a real PostgreSQL, from Debian's package, for tests: one server for a
// test binary, a schema of its own for each journal.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is who the URLs of schemas log in as: an ordinary user of the database.
const Role = "broker"

// Server is a running PostgreSQL. It listens on a unix socket only.
type Server struct {
	dir     string
	bin     string
	process *exec.Cmd
	ended   chan struct{}
	schemas atomic.Int64
}

// Start makes a database cluster in a new folder and starts its server. settings are such as "fsync=off".
// The error says what to install where PostgreSQL is missing.
func Start(settings ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "pg") // the name of a socket must be short
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err = own(dir); err == nil {
		err = s.run("initdb", "--pgdata="+filepath.Join(dir, "data"),
			"--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	}
	if err == nil {
		err = s.Launch(settings...)
	}
	if err == nil {
		err = s.exec("postgres", "CREATE ROLE "+Role+" LOGIN; CREATE DATABASE market OWNER "+Role)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// find looks where Debian's packages are, and in PATH.
func find() (string, error) {
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb",
		"/usr/local/pgsql/bin/initdb", "/opt/homebrew/opt/postgresql*/bin/initdb"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(found[len(found)-1]), nil
		}
	}
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found), nil
	}
	return "", errors.New("PostgreSQL is not installed, and a broker's journal may be in it: apt-get install postgresql")
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes()
	return cmd
}

func (s *Server) run(name string, args ...string) error {
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Launch starts the server, also again after Kill, and waits until it answers.
func (s *Server) Launch(settings ...string) error {
	args := []string{"-D", filepath.Join(s.dir, "data"), "-k", s.dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=16MB"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.process, s.ended = s.command("postgres", args...), make(chan struct{})
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.ended)
		_ = s.process.Wait()
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err = s.exec("postgres", "SELECT"); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("postgres ended: %s", s.Log())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %w: %s", err, s.Log())
		}
	}
}

// Log is what the server said.
func (s *Server) Log() string {
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(log)
}

// Kill ends the server as kill -9 does. Its own children follow, which is waited for.
func (s *Server) Kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.ended
	s.orphans()
}

// orphans waits until no process is left that still has the dead server's shared memory: a new one refuses to
// start before.
func (s *Server) orphans() {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found, _ := filepath.Glob("/proc/[0-9]*/cwd")
		left := false
		for _, cwd := range found {
			dir, err := os.Readlink(cwd)
			left = left || err == nil && dir == filepath.Join(s.dir, "data")
		}
		if !left {
			return
		}
	}
}

// Recover does what the recovery of a backup to a point in time does: the server begins another timeline.
func (s *Server) Recover(t testing.TB) {
	t.Helper()
	s.Kill()
	err := os.WriteFile(filepath.Join(s.dir, "data", "recovery.signal"), nil, 0o600)
	if err == nil {
		err = own(filepath.Join(s.dir, "data", "recovery.signal"))
	}
	if err == nil {
		err = s.Launch("restore_command=false")
	}
	for deadline := time.Now().Add(time.Minute); err == nil &&
		time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s.exec("postgres", "SELECT 1/(NOT pg_is_in_recovery())::int") == nil { // which cannot be divided by before
			return
		}
	}
	t.Fatalf("the server does not recover: %v: %s", err, s.Log())
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Signal(os.Interrupt) // fast shutdown
		select {
		case <-s.ended:
		case <-time.After(20 * time.Second):
			s.Kill()
		}
	}
	_ = os.RemoveAll(s.dir)
}

func (s *Server) url(user, database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s", user, database, s.dir)
}

func (s *Server) exec(database, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres", database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statementsOf(statements) {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Exec carries out statements, separated by semicolons, as the server's superuser in the database
// of the schemas.
func (s *Server) Exec(t testing.TB, statements string) {
	t.Helper()
	if err := s.exec("market", statements); err != nil {
		t.Fatal(err)
	}
}

// Schema makes a new schema and returns its name, and the URL of a journal in it.
func (s *Server) Schema(t testing.TB) (name, url string) {
	t.Helper()
	name = "s" + strconv.FormatInt(s.schemas.Add(1), 10)
	s.Exec(t, "CREATE SCHEMA "+name+" AUTHORIZATION "+Role)
	return name, s.url(Role, "market") + "&search_path=" + name
}

// statementsOf splits what one transaction must not hold, such as CREATE DATABASE.
func statementsOf(all string) []string { return strings.Split(all, ";") }
