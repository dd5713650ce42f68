package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/postgres"
	"github.com/bourse-dev/bourse/internal/journal/postgres/postgrestest"
)

const victimEnv = "JOURNAL_VICTIM"

// event is what the victim appends as the nth event ever, and state what it snapshots after it.
func event(n uint64) []byte { return fmt.Appendf(nil, "event %d %0*d", n, n*37%3000, n) }
func state(n uint64) []byte { return fmt.Appendf(nil, "state %d %0*d", n, n*9973%3_000_000, n) }

// victim appends until it is killed, or its server is, and prints each revision once it is acknowledged.
func victim(url string) {
	ctx := context.Background()
	j, err := postgres.New(url)
	var content journaltest.Content
	if err == nil {
		content, err = journaltest.Read(ctx, j)
	}
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

// Whatever was acknowledged is there after kill -9, of the broker's process or of the whole server.
func TestKill(t *testing.T) {
	t.Parallel()
	own, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	_, url := own.Schema(t)
	before, snapshots := uint64(0), map[uint64]bool{}
	for round := range 16 {
		kill := func(victim *exec.Cmd) { victim.Process.Kill() }
		if round%4 == 3 {
			kill = func(*exec.Cmd) { own.Kill() }
		}
		acknowledged := max(before, runVictim(t, url, kill))
		if round%4 == 3 {
			if err := own.Launch(); err != nil {
				t.Fatal(err)
			}
		}
		j := open(t, url)
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
		t.Errorf("the victims appended %d events and took %d snapshots: nothing was tested", before, len(snapshots))
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

// runVictim starts one, kills after a random number of acknowledgements, and returns the last of them.
func runVictim(t *testing.T, url string, kill func(*exec.Cmd)) (acknowledged uint64) {
	t.Helper()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"="+url)
	output, err := victim.StdoutPipe()
	if err == nil {
		err = victim.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	left := rand.IntN(60)
	for ; lines.Scan(); left-- {
		if acknowledged, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			kill(victim) // the pipe may hold more acknowledgements: read on
		}
	}
	if err := victim.Wait(); err == nil || left >= 0 {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return acknowledged
}
