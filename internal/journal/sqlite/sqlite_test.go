package sqlite

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

func TestMain(m *testing.M) {
	journaltest.Victim(func(path string) (journal.Journal, error) { return New(path), nil })
	flag.Set("rapid.checks", "15") // of the many steps that each takes
	goleak.VerifyTestMain(m)
}

// files are a journal's, by what follows its path.
type files map[string][]byte

func readFiles(t testing.TB, path string) files {
	t.Helper()
	found := files{}
	for _, suffix := range []string{"", "-wal", ".head"} {
		content, err := os.ReadFile(path + suffix)
		if err == nil {
			found[suffix] = content
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return found
}

func (f files) write(t testing.TB, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm", ".head"} {
		var err error
		if content, ok := f[suffix]; ok {
			err = os.WriteFile(path+suffix, content, 0o600)
		} else if err = os.Remove(path + suffix); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func databaseOf(j *Journal) *database {
	db, _ := j.Loaded()
	return db.(*database)
}

func headOf(j *Journal) journal.Head {
	_, head := j.Loaded()
	return head
}

func TestConformance(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t testing.TB) func() journal.Journal {
		folder, lives := t.TempDir(), 0
		path := func() string { return filepath.Join(folder, fmt.Sprint(lives)) }
		j := New(path())
		t.Cleanup(func() { j.Close() })
		return func() journal.Journal {
			// What a kill leaves behind is what the files hold while the journal is open.
			left := readFiles(t, path())
			j.Close()
			lives++
			left.write(t, path())
			j = New(path())
			return j
		}
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	journaltest.RunStore(t, func(t testing.TB) func() journaltest.Store {
		path := filepath.Join(t.TempDir(), "j")
		var last *Journal
		t.Cleanup(func() { last.Close() })
		return func() journaltest.Store {
			if last != nil {
				last.Close()
			}
			last = New(path)
			return last
		}
	})
}

// history makes a journal and appends rounds batches to it, with a snapshot after the first half.
func history(t testing.TB, path string, rounds int) *Journal {
	t.Helper()
	j := New(path)
	t.Cleanup(func() { j.Close() })
	content, err := journaltest.Read(t.Context(), j)
	for i := range rounds {
		if err == nil {
			content.Head, err = j.Append(t.Context(), content.Head, [][]byte{fmt.Appendf(nil, "event %d", i), make([]byte, 500)})
		}
		if err == nil && i == rounds/2 {
			err = j.Snapshot(t.Context(), content.Head, journal.State(make([]byte, 5000)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestCommitsAreSynced(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 3)
	for query, want := range map[string]any{
		"PRAGMA synchronous":  int64(2), // FULL
		"PRAGMA journal_mode": "wal",
		"PRAGMA locking_mode": "exclusive",
	} {
		if err := databaseOf(j).checkValue(t.Context(), want, query); err != nil {
			t.Error(err)
		}
	}
}

func TestFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	history(t, path, 3)
	for _, suffix := range []string{"", "-wal", ".head"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("mode of %s is %v, want 0600", info.Name(), info.Mode())
		}
	}
}

func TestPathMayHoldAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?mode=ro b#c%20d")
	j := history(t, path, 3)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	j.Close()
	history(t, path, 3)
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	first := history(t, path, 3)
	second := New(path)
	_, err := journaltest.Read(t.Context(), second)
	wantRefused(t, err, path, tables.RemedyInUse)
	if _, err := first.Append(t.Context(), headOf(first), [][]byte{[]byte("still")}); err != nil {
		t.Error(err)
	}
	first.Close()
	if _, err := journaltest.Read(t.Context(), second); err != nil {
		t.Error(err)
	}
	second.Close()
}

func TestMissingFolder(t *testing.T) {
	_, err := journaltest.Read(t.Context(), New(filepath.Join(t.TempDir(), "none", "j")))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("load: %v, want that the folder does not exist", err)
	}
}

func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	j := New(path)
	defer j.Close()
	content, err := journaltest.Read(t.Context(), j)
	var after5 int64
	for round := range 20 {
		for range 20 {
			if err == nil {
				content.Head, err = j.Append(t.Context(), content.Head, [][]byte{make([]byte, 20_000)})
			}
		}
		if err == nil {
			err = j.Snapshot(t.Context(), content.Head, journal.State(make([]byte, 1<<20)))
		}
		if err != nil {
			t.Fatal(err)
		}
		if round == 5 {
			after5 = size(path) + size(path+"-wal")
		}
	}
	if grown := size(path) + size(path+"-wal"); grown > 2*after5 {
		t.Errorf("%d bytes after 5 snapshots, %d after 20", after5, grown)
	}
	for table, want := range map[string]int64{"records": 0, "state": 4} {
		if err := databaseOf(j).checkValue(t.Context(), want, "SELECT count(*) FROM "+table); err != nil {
			t.Error(err)
		}
	}
}

// A failed fsync says nothing about what is on the disk, so nothing may follow it.
func TestFailureSticks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := history(t, path, 3)
	head := headOf(j)
	databaseOf(j).mark.Close() // the next commit succeeds, and cannot be marked
	if _, err := j.Append(t.Context(), head, [][]byte{[]byte("unknown")}); err == nil {
		t.Fatal("append succeeded without a head file")
	}
	for _, after := range []journal.Head{head, headOf(j)} {
		if _, err := j.Append(t.Context(), after, [][]byte{[]byte("next")}); err == nil ||
			errors.Is(err, journal.ErrConflict) {
			t.Errorf("append after a failure: %v", err)
		}
	}
	if _, err := journaltest.Read(t.Context(), j); err == nil {
		t.Error("load after a failure succeeded")
	}
	j.Close()
	next := New(path)
	defer next.Close()
	content, err := journaltest.Read(t.Context(), next)
	if err != nil || content.Head.Revision != head.Revision+1 {
		t.Errorf("a new process loads %v, %v", content.Head, err)
	}
}

// An append must not wait for all of a big snapshot, only for the piece that is being written.
func TestAppendsGoOnDuringSnapshot(t *testing.T) {
	t.Parallel()
	j := history(t, filepath.Join(t.TempDir(), "j"), 3)
	at, done := headOf(j), make(chan error)
	go func() { done <- j.Snapshot(t.Context(), at, journal.State(make([]byte, 64<<20))) }()
	appended := 0
	for head := at; ; appended++ {
		select {
		case err := <-done:
			if err != nil || appended < 10 {
				t.Errorf("%d appends during a snapshot: %v", appended, err)
			}
			return
		default:
			var err error
			if head, err = j.Append(t.Context(), head, [][]byte{[]byte("event")}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func wantRefused(t *testing.T, err error, where, remedy string) {
	t.Helper()
	var refused *journal.RefusedError
	if !errors.As(err, &refused) || refused.Where != where || refused.Remedy != remedy {
		t.Errorf("load: %v, want %s refused with remedy %q", err, where, remedy)
	}
}
