package postgres_test

import (
	"os"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/postgres/postgrestest"
)

// Each fourth time it is not the broker's process that is killed, but the whole server.
func TestKill(t *testing.T) {
	t.Parallel()
	own, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	_, url := own.Schema(t)
	server := func(round int) bool { return round%4 == 3 }
	journaltest.Kill(t, url, 16,
		func(round int, victim *os.Process) error {
			if server(round) {
				own.Kill()
				return nil
			}
			return victim.Kill()
		},
		func(round int) journal.Journal {
			if server(round) {
				if err := own.Launch(); err != nil {
					t.Fatal(err)
				}
			}
			return open(t, url)
		})
}
