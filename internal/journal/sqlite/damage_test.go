package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/tables"
)

// TestDamage flips a bit of each file of a journal, and cuts the file, at one offset after the other. After
// any damage, Load returns all acknowledged events or refuses, and a refusal changes nothing.
// JOURNAL_DAMAGE_STEP=1 tries every offset. The default tries enough to finish in seconds.
func TestDamage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	j := history(t, filepath.Join(folder, "j"), 8)
	killed := readFiles(t, j.path)
	want, err := journaltest.Read(t.Context(), j) // which moves the WAL into the database
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	closed := readFiles(t, j.path)
	if len(killed["-wal"]) == 0 || len(closed["-wal"]) != 0 {
		t.Fatal("want one journal with a WAL and one without")
	}
	step := 701
	if s := os.Getenv("JOURNAL_DAMAGE_STEP"); s != "" {
		fmt.Sscan(s, &step)
	}
	for _, intact := range []struct {
		name string
		files
	}{{"killed", killed}, {"closed", closed}} {
		for suffix, content := range intact.files {
			t.Run(intact.name+suffix, func(t *testing.T) {
				d := damage{t: t, path: filepath.Join(t.TempDir(), "j"), want: want}
				damaged := files{"": intact.files[""], "-wal": intact.files["-wal"], ".head": intact.files[".head"]}
				for offset := 0; offset < len(content); offset += step {
					flipped := bytes.Clone(content)
					flipped[offset] ^= 1 << (offset % 8)
					damaged[suffix] = flipped
					d.load(damaged, "flipped", offset)
					damaged[suffix] = content[:offset]
					d.load(damaged, "cut", offset)
				}
				t.Logf("of %d damages %d were refused, %d did no harm", d.refused+d.harmless, d.refused, d.harmless)
				if d.refused == 0 {
					t.Error("no damage was noticed")
				}
			})
		}
	}
}

type damage struct {
	t                 *testing.T
	path              string
	want              journaltest.Content
	refused, harmless int
}

func (d *damage) load(damaged files, how string, offset int) {
	d.t.Helper()
	damaged.write(d.t, d.path)
	j := New(d.path)
	defer j.Close()
	got, err := journaltest.Read(d.t.Context(), j)
	var refused *journal.RefusedError
	switch {
	case err == nil && reflect.DeepEqual(got, d.want):
		d.harmless++
		d.goOn(j, how, offset)
	case err == nil:
		d.t.Fatalf("%s at %d: loaded another history, to %v instead of %v", how, offset, got.Head, d.want.Head)
	case !errors.As(err, &refused):
		d.t.Errorf("%s at %d: not refused, but: %v", how, offset, err)
	default:
		d.refused++
		for suffix, before := range damaged {
			if after, _ := os.ReadFile(d.path + suffix); !bytes.Equal(before, after) {
				d.t.Errorf("%s at %d: refused (%v), but changed %q", how, offset, err, suffix)
			}
		}
	}
}

// goOn proves that a journal that was loaded can be used.
func (d *damage) goOn(j *Journal, how string, offset int) {
	d.t.Helper()
	for range 3 {
		if _, err := j.Append(d.t.Context(), headOf(j), [][]byte{make([]byte, 6000)}); err != nil {
			d.t.Fatalf("%s at %d: loaded, but: %v", how, offset, err)
		}
	}
	head := headOf(j)
	if got, err := journaltest.Read(d.t.Context(), j); err != nil || got.Head != head {
		d.t.Fatalf("%s at %d: loaded and appended to, then: %v", how, offset, err)
	}
}

// A torn write is one that was never acknowledged: it is cut.
func TestTornTailIsCut(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 3)
	want, before := headOf(j), readFiles(t, j.path)
	if _, err := j.Append(t.Context(), headOf(j), [][]byte{make([]byte, 10_000)}); err != nil {
		t.Fatal(err)
	}
	after := readFiles(t, j.path)
	j.Close()
	for cut := len(before["-wal"]); cut < len(after["-wal"]); cut += 512 {
		before["-wal"] = after["-wal"][:cut]
		before.write(t, j.path)
		got, err := journaltest.Read(t.Context(), j)
		if err != nil || got.Head != want {
			t.Fatalf("cut at %d: loaded %v, %v; want %v", cut, got.Head, err, want)
		}
		j.Close()
	}
}

// Power fails: the head file, which is not synced, is as old as the last snapshot.
func TestHeadFileMayLag(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 5)
	if err := j.Snapshot(t.Context(), headOf(j), journal.State([]byte("state"))); err != nil {
		t.Fatal(err)
	}
	lagging := readFiles(t, j.path)[".head"]
	for range 10 {
		if _, err := j.Append(t.Context(), headOf(j), [][]byte{[]byte("event")}); err != nil {
			t.Fatal(err)
		}
	}
	want, left := headOf(j), readFiles(t, j.path)
	j.Close()
	left[".head"] = lagging
	left.write(t, j.path)
	got, err := journaltest.Read(t.Context(), j)
	if err != nil || got.Head != want {
		t.Errorf("loaded %v, %v; want %v", got.Head, err, want)
	}
}

func TestReplacedFilesAreRefused(t *testing.T) {
	folder := t.TempDir()
	j := history(t, filepath.Join(folder, "j"), 6)
	older := readFiles(t, j.path)
	if _, err := j.Append(t.Context(), headOf(j), [][]byte{[]byte("acknowledged")}); err != nil {
		t.Fatal(err)
	}
	newest := readFiles(t, j.path)
	if err := j.Snapshot(t.Context(), headOf(j), journal.State([]byte("state"))); err != nil {
		t.Fatal(err)
	}
	snapshot := readFiles(t, j.path)
	j.Close()
	other := history(t, filepath.Join(folder, "other"), 7)
	foreign := readFiles(t, other.path)
	other.Close()
	twin := bytes.Clone(newest[".head"]) // the same revision, another hash
	for i := range 2 {
		head, writes, err := decodeSlot(twin[i*slotSize:][:slotSize])
		if err != nil {
			t.Fatal(err)
		}
		head.Hash[0] ^= 1
		slot, _ := encodeSlot(head, writes)
		copy(twin[i*slotSize:], slot)
	}

	for name, test := range map[string]struct {
		files
		remedy string
	}{
		"an older database and WAL": {files{"": older[""], "-wal": older["-wal"],
			".head": newest[".head"]}, remedyMissing},
		"an older WAL": {files{"": newest[""], "-wal": older["-wal"],
			".head": newest[".head"]}, remedyMissing},
		"no WAL": {files{"": newest[""], ".head": newest[".head"]}, remedyMissing},
		"another journal": {files{"": foreign[""], "-wal": foreign["-wal"],
			".head": newest[".head"]}, remedyMissing},
		"another history": {files{"": newest[""], "-wal": newest["-wal"], ".head": twin}, remedyMissing},
		"a head file of before": {files{"": snapshot[""], "-wal": snapshot["-wal"],
			".head": older[".head"]}, remedyMissing},
		"no head file":       {files{"": newest[""], "-wal": newest["-wal"]}, remedyHead},
		"an empty head file": {files{"": newest[""], "-wal": newest["-wal"], ".head": {}}, remedyHead},
		"a head file of zeros": {files{"": newest[""], "-wal": newest["-wal"],
			".head": make([]byte, 2*slotSize)}, remedyHead},
		"no database":                   {files{".head": newest[".head"]}, remedyMissing},
		"an empty database":             {files{"": {}, ".head": newest[".head"]}, remedyMissing},
		"an empty database and its WAL": {files{"": {}, "-wal": newest["-wal"], ".head": newest[".head"]}, remedyDamage},
		"not a database":                {files{"": []byte("dear diary"), ".head": newest[".head"]}, remedyDamage},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			test.write(t, path)
			j := New(path)
			defer j.Close()
			_, err := journaltest.Read(t.Context(), j)
			wantRefused(t, err, path, test.remedy)
			for suffix, before := range test.files {
				if after, _ := os.ReadFile(path + suffix); !bytes.Equal(before, after) {
					t.Errorf("refused, but changed %q", suffix)
				}
			}
			if test.remedy == remedyDamage {
				return
			}
			acceptLossOf(t, path)
		})
	}
}

// acceptLossOf is the way out that the remedies name.
func acceptLossOf(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if _, err := New(path).AcceptLoss(t.Context()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("accept loss of a database that is not there: %v", err)
		}
		return
	}
	head, err := New(path).AcceptLoss(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j := New(path)
	defer j.Close()
	content, err := journaltest.Read(t.Context(), j)
	if err != nil || content.Head != head {
		t.Errorf("after accepting a loss: loaded %v, %v; want %v", content.Head, err, head)
	}
}

// An older copy is put back for good: what it holds goes on in a new lineage, and the newer copy can no
// longer be mistaken for it.
func TestAcceptLoss(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 6)
	kept, older := headOf(j), readFiles(t, j.path)
	if _, err := j.Append(t.Context(), headOf(j), [][]byte{[]byte("lost")}); err != nil {
		t.Fatal(err)
	}
	newer := readFiles(t, j.path)
	j.Close()
	files{"": older[""], "-wal": older["-wal"], ".head": newer[".head"]}.write(t, j.path)
	head, err := New(j.path).AcceptLoss(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if head.Lineage == kept.Lineage || head.Revision != kept.Revision || head.Hash != kept.Hash {
		t.Errorf("after the loss: %v, want a new lineage of %v", head, kept)
	}
	accepted := readFiles(t, j.path)
	files{"": newer[""], "-wal": newer["-wal"], ".head": accepted[".head"]}.write(t, j.path)
	_, err = journaltest.Read(t.Context(), j)
	wantRefused(t, err, j.path, remedyMissing)
}

func TestNewerFormatIsRefused(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 3)
	if _, err := databaseOf(j).ExecContext(t.Context(), "PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	_, err := journaltest.Read(t.Context(), j)
	wantRefused(t, err, j.path, tables.RemedyNewer)
}

// Byte 18 of a database says who may write it: all else of it can be read and verified.
func TestReadOnlyIsRefused(t *testing.T) {
	j := history(t, filepath.Join(t.TempDir(), "j"), 3)
	j.Close()
	closed := readFiles(t, j.path)
	closed[""][18] = 3
	closed.write(t, j.path)
	_, err := journaltest.Read(t.Context(), j)
	wantRefused(t, err, j.path, remedyReadOnly)
}

// What the head file and SQLite cannot notice, the chain does.
func TestForgeryIsRefused(t *testing.T) {
	for _, forgery := range []string{
		"UPDATE records SET events = x'00000001ff' WHERE revision = (SELECT min(revision) FROM records)",
		"UPDATE records SET events = x'ff' WHERE revision = (SELECT max(revision) FROM records)",
		"UPDATE records SET hash = x'00' WHERE revision = (SELECT max(revision) FROM records)",
		"DELETE FROM records WHERE revision = (SELECT min(revision) FROM records)",
		"UPDATE records SET revision = revision + 100 WHERE revision = (SELECT max(revision) FROM records)",
		"UPDATE state SET bytes = x'00'",
		"UPDATE base SET first = last + 1",
		"UPDATE base SET revision = revision - 1",
		"DELETE FROM base",
		"DROP TABLE records",
	} {
		t.Run(forgery, func(t *testing.T) {
			j := history(t, filepath.Join(t.TempDir(), "j"), 6)
			if _, err := databaseOf(j).ExecContext(t.Context(), forgery); err != nil {
				t.Fatal(err)
			}
			_, err := journaltest.Read(t.Context(), j)
			wantRefused(t, err, j.path, remedyDamage)
		})
	}
}

func FuzzDecodeSlot(f *testing.F) {
	slot, err := encodeSlot(journal.Genesis(), 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slot)
	f.Add(slot[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, slot []byte) {
		head, writes, err := decodeSlot(slot)
		if err != nil {
			return
		}
		if again, err := encodeSlot(head, writes); err != nil || !bytes.Equal(again, slot) {
			t.Errorf("decoded to %v, %d, which encodes to something else", head, writes)
		}
	})
}

// A first start that was killed before there was a table leaves a rollback journal. Nothing was
// acknowledged: the next start begins.
func TestARollbackJournalOfTheFirstStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "market.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE t (x); DROP TABLE t; VACUUM"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"-journal", bytes.Repeat([]byte{0xd9}, 512), 0o600); err != nil {
		t.Fatal(err)
	}
	j := New(path)
	defer j.Close()
	if head, err := j.Load(t.Context(), func(journal.Head, []byte) error { return nil },
		func(journal.Record) error { return nil }); err != nil || head.Revision != 0 {
		t.Errorf("%+v, %v", head, err)
	}
}
