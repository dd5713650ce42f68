package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal/journaltest"
)

const victimEnv = "JOURNAL_VICTIM"

// event is what the victim appends as the nth event ever, and state what it snapshots after it.
func event(n uint64) []byte { return fmt.Appendf(nil, "event %d %0*d", n, n*37%3000, n) }
func state(n uint64) []byte { return fmt.Appendf(nil, "state %d %0*d", n, n*997%600_000, n) }

// victim appends until it is killed, and prints each revision once it is acknowledged.
func victim(path string) {
	ctx, j := context.Background(), New(path)
	content, err := journaltest.Read(ctx, j)
	for head := content.Head; err == nil; {
		var events [][]byte
		for range 1 + rand.IntN(20) {
			events = append(events, event(head.Revision+uint64(len(events))+1))
		}
		if head, err = j.Append(ctx, head, events); err == nil {
			fmt.Println(head.Revision)
		}
		if err == nil && rand.IntN(20) == 0 {
			err = j.Snapshot(ctx, head, state(head.Revision))
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	before, snapshots := uint64(0), map[uint64]bool{}
	for range 24 {
		acknowledged := max(before, killVictim(t, path))
		j := New(path)
		content, err := journaltest.Read(t.Context(), j)
		j.Close()
		if err != nil {
			t.Fatal(err)
		}
		if content.Head.Revision < acknowledged {
			t.Fatalf("%d events were acknowledged, %d are there", acknowledged, content.Head.Revision)
		}
		checkContent(t, content)
		before, snapshots[content.Base.Revision] = content.Head.Revision, true
	}
	if before == 0 || len(snapshots) < 3 {
		t.Errorf("24 victims appended %d events and took %d snapshots: nothing was tested", before, len(snapshots))
	}
}

func checkContent(t *testing.T, content journaltest.Content) {
	t.Helper()
	if n := content.Base.Revision; n > 0 && content.State != string(state(n)) {
		t.Fatalf("snapshot at revision %d is not what was stored", n)
	}
	next := content.Base.Revision + 1
	for _, record := range content.Records {
		for _, got := range record.Events {
			if string(got) != string(event(next)) {
				t.Fatalf("event %d is %.20q", next, got)
			}
			next++
		}
	}
	if next != content.Head.Revision+1 {
		t.Fatalf("events end before %d, the head is %v", next, content.Head)
	}
}

// killVictim kills one after a random number of acknowledgements and returns the last of them.
func killVictim(t *testing.T, path string) (acknowledged uint64) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env, command.Stderr = append(os.Environ(), victimEnv+"="+path), os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for left := rand.IntN(60); lines.Scan(); left-- {
		if acknowledged, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			command.Process.Kill() // the pipe may hold more acknowledgements: read on
		}
	}
	if err := command.Wait(); err == nil || command.ProcessState.ExitCode() != -1 {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return acknowledged
}
