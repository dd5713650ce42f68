package robustness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// damage is something that happens to the files of a broker that is not running.
type damage struct {
	name string
	do   func(t *testing.T, journal string)
	says string // besides that it refuses, and a remedy
	// accepted: `bourse broker journal accept-loss` can go on from what is left.
	accepted bool
}

var damages = []damage{
	{"bit flipped in a record", edit("", func(data []byte) []byte {
		// In every copy: some are in what SQLite no longer uses.
		return bytes.ReplaceAll(data, []byte(`"consumer":"rome"`), []byte(`"consumer":"rnme"`))
	}), "put back the newest backup", false},
	{"garbage in place of the database", edit("", func(data []byte) []byte {
		copy(data, strings.Repeat("garbage ", 1024))
		return data
	}), "put back the newest backup", false},
	{"database cut short", edit("", func(data []byte) []byte { return data[:len(data)/2] }),
		"put back the newest backup", false},
	{"database empty", edit("", func([]byte) []byte { return nil }), "put back the newest backup", false},
	{"database gone", func(t *testing.T, journal string) {
		remove(t, journal)
		remove(t, journal+"-wal")
	}, "put back the newest copy", false},
	{"database of a later version", func(t *testing.T, journal string) {
		remove(t, journal+"-wal") // it has a newer copy of the header
		edit("", func(data []byte) []byte { data[63] = 9; return data })(t, journal)
	}, "start the version of bourse that wrote it", false},
	{"WAL cut in the middle", edit("-wal", func(data []byte) []byte { return data[:len(data)/2] }),
		"put back the newest copy", true},
	{"WAL gone", func(t *testing.T, journal string) { remove(t, journal+"-wal") }, "put back the newest copy", true},
	{"head file gone", func(t *testing.T, journal string) { remove(t, journal+".head") }, "put back the head file", true},
	{"head file damaged", edit(".head", func(data []byte) []byte { return bytes.Repeat([]byte{7}, len(data)) }),
		"put back the head file", true},
}

// flips are bits flipped all over the WAL.
func flips() (out []damage) {
	for i := range 8 {
		out = append(out, damage{fmt.Sprintf("bit flipped in part %d of the WAL", i), edit("-wal", func(data []byte) []byte {
			data[len(data)*i/8+len(data)/16] ^= 4
			return data
		}), "put back the newest copy", true})
	}
	return out
}

// edit changes one file of a journal.
func edit(suffix string, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, journal string) {
		t.Helper()
		data, err := os.ReadFile(journal + suffix)
		if err == nil {
			err = os.WriteFile(journal+suffix, change(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A broker does not start on files that do not prove that everything acknowledged is in them: it says what it
// found and what to do, changes nothing, and starts again once the files are back.
func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	good := wrecked(b)
	for _, d := range append(damages, flips()...) {
		t.Run(d.name, func(t *testing.T) { d.refused(t, b, good) })
	}
	restore(t, good, b)
	b.start()
	if got := len(all(t, b.operator)); got != 15 {
		t.Errorf("%d reservations are in the files as they were, want 15", got)
	}
}

func (d damage) refused(t *testing.T, first *process, good string) {
	b := *first
	b.t = t
	defer b.kill()
	restore(t, good, &b)
	d.do(t, b.journal())
	before := snapshot(t, &b)
	said := b.refused()
	for _, want := range []string{"refused", "remedy", d.says} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if snapshot(t, &b) != before {
		t.Error("refusing it changed the files")
	}
	out, err := acceptLoss(&b)
	if (err == nil) != d.accepted {
		t.Errorf("accept-loss: %v: %s", err, out)
	}
	if d.accepted {
		b.start()
		b.balanced()
	}
}

// wrecked makes a journal that has records in the database and in the WAL, as kill -9 leaves it,
// and returns a copy.
func wrecked(b *process) (good string) {
	b.t.Helper()
	b.start()
	rome, milan := b.join("rome"), b.join("milan")
	reserve := func(key string) {
		if err := milan.Offer(b.t.Context(), cpu(20_000)); err != nil {
			b.t.Fatal(err)
		}
		if _, err := rome.Reserve(b.t.Context(), key, api.Request{Resources: cpu(1000)}); err != nil {
			b.t.Fatal(err)
		}
	}
	for i := range 12 { // so many that the first page is not written again
		reserve(fmt.Sprint("before-", i))
	}
	b.stop() // moves the WAL into the database
	b.start()
	for i := range 3 {
		reserve(fmt.Sprint("after-", i))
	}
	b.kill()
	good = b.t.TempDir()
	copyFiles(b.t, filepath.Dir(b.journal()), good)
	return good
}

func restore(t *testing.T, good string, b *process) {
	t.Helper()
	dir := filepath.Dir(b.journal())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, good, dir)
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
}

// snapshot is the content of the journal's files. A missing file counts as an empty one. The WAL's index does not
// count, because SQLite makes it from the WAL.
func snapshot(t *testing.T, b *process) string {
	t.Helper()
	var all strings.Builder
	for _, suffix := range []string{"", "-wal", ".head"} {
		data, err := os.ReadFile(b.journal() + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n", data)
	}
	return all.String()
}

func acceptLoss(b *process) (string, error) {
	out, err := exec.Command(binary, "broker", "journal", "accept-loss",
		"--dir", filepath.Dir(b.journal())).CombinedOutput()
	return string(out), err
}

// Of two brokers on one folder the second does not start, nor does accept-loss change anything
// under the first.
func TestSecondBrokerOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	first := newProcess(t)
	first.start()
	second := newProcess(t)
	if err := os.Symlink(filepath.Join(first.dir, "data"), filepath.Join(second.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if said := second.refused(); !strings.Contains(said, "stop the other process first") {
		t.Errorf("it does not say what to do:\n%s", said)
	}
	if out, err := acceptLoss(first); err == nil || !strings.Contains(out, "stop the other process first") {
		t.Errorf("accept-loss on a running broker: %v: %s", err, out)
	}
	first.join("rome")
}
