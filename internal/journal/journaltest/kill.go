package journaltest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
)

const victimEnv = "JOURNAL_VICTIM"

// event is what a victim appends as the nth event ever, and state what it snapshots after it.
func event(n uint64) []byte { return fmt.Appendf(nil, "event %d %0*d", n, n*37%3000, n) }
func state(n uint64) []byte { return fmt.Appendf(nil, "state %d %0*d", n, n*9973%3_000_000, n) }

// Victim is for the TestMain of a package that calls Kill: in a process that is to be killed it
// uses the journal that open makes of its place, until then; in any other it does nothing.
func Victim(open func(place string) (journal.Journal, error)) {
	place := os.Getenv(victimEnv)
	if place == "" {
		return
	}
	j, err := open(place)
	if err == nil {
		err = appendForEver(j)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// appendForEver appends, snapshots now and then, and prints each revision once it is acknowledged.
func appendForEver(j journal.Journal) error {
	ctx := context.Background()
	content, err := Read(ctx, j)
	for head := content.Head; err == nil; {
		var events [][]byte
		for range 1 + rand.IntN(20) {
			events = append(events, event(head.Revision+uint64(len(events))+1))
		}
		if head, err = j.Append(ctx, head, events); err == nil {
			fmt.Println(head.Revision)
		}
		if err == nil && rand.IntN(20) == 0 {
			err = j.Snapshot(ctx, head, journal.State(state(head.Revision)))
		}
	}
	return err
}

// Kill runs processes on one journal, one after the other. kill gets the number of the round, and ends the
// process after a random number of acknowledgements. restore makes the journal ready to be opened again. All
// acknowledged events must be there.
func Kill(t *testing.T, place string, rounds int, kill func(round int, victim *os.Process) error,
	restore func(round int) journal.Journal) {
	before, snapshots := uint64(0), map[uint64]bool{}
	for round := range rounds {
		acknowledged := max(before, runVictim(t, place, func(victim *os.Process) error { return kill(round, victim) }))
		j := restore(round)
		content, err := Read(t.Context(), j)
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
		t.Errorf("%d victims appended %d events and took %d snapshots: nothing was tested", rounds, before, len(snapshots))
	}
}

func checkContent(t *testing.T, content Content) {
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
func runVictim(t *testing.T, place string, kill func(*os.Process) error) (acknowledged uint64) {
	t.Helper()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"="+place)
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
		if left == 0 { // the pipe may hold more acknowledgements: read on
			if err := kill(victim.Process); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := victim.Wait(); err == nil || left >= 0 {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return acknowledged
}
