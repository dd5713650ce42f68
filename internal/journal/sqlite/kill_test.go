package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
)

func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	journaltest.Kill(t, path, 24,
		func(_ int, victim *os.Process) error { return victim.Kill() },
		func(int) journal.Journal { return New(path) })
}
