package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/postgres"
	"github.com/bourse-dev/bourse/internal/journal/postgres/postgrestest"
)

var server *postgrestest.Server

func TestMain(m *testing.M) {
	journaltest.Victim(func(url string) (journal.Journal, error) { return postgres.New(url) })
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: these tests run a real PostgreSQL")
		return
	}
	flag.Set("rapid.checks", "8") // of the many steps that each takes
	var err error
	if server, err = postgrestest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func open(t testing.TB, url string) *postgres.Journal {
	t.Helper()
	j, err := postgres.New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func TestConformance(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t testing.TB) func() journal.Journal {
		_, url := server.Schema(t)
		return func() journal.Journal { return open(t, url) }
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	journaltest.RunStore(t, func(t testing.TB) func() journaltest.Store {
		_, url := server.Schema(t)
		var last *postgres.Journal
		return func() journaltest.Store {
			if last != nil {
				last.Close()
			}
			last = open(t, url)
			return last
		}
	})
}

// history makes a journal and appends rounds batches to it, with a snapshot after the first half.
func history(t testing.TB, j *postgres.Journal, rounds int) journaltest.Content {
	t.Helper()
	content, err := journaltest.Read(t.Context(), j)
	for i := range rounds {
		if err == nil {
			content.Head, err = j.Append(t.Context(), content.Head, [][]byte{fmt.Appendf(nil, "event %d", i), make([]byte, 500)})
		}
		if err == nil && i == rounds/2 {
			err = j.Snapshot(t.Context(), content.Head, journal.State(make([]byte, 5000)))
		}
	}
	if err == nil {
		content, err = journaltest.Read(t.Context(), j)
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The process that loaded last writes. All others may no longer write, in any way, even before the new writer
// has written.
func TestOnlyTheLastToLoadWrites(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	stalled, next := open(t, url), open(t, url)
	head := history(t, stalled, 3).Head
	if _, err := journaltest.Read(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if _, err := stalled.Append(t.Context(), head, [][]byte{[]byte("late")}); !errors.Is(err, journal.ErrConflict) ||
		!strings.Contains(err.Error(), "another broker took over") {
		t.Errorf("append: %v, want ErrConflict", err)
	}
	if err := stalled.Snapshot(t.Context(), head, journal.State([]byte("late"))); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("snapshot: %v, want ErrConflict", err)
	}
	if _, err := stalled.NewLineage(t.Context(), head); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("new lineage: %v, want ErrConflict", err)
	}
	if _, err := next.Append(t.Context(), head, [][]byte{[]byte("mine")}); err != nil {
		t.Error(err)
	}
	if got, err := read(t, open(t, url)); err != nil || got.Head.Revision != head.Revision+1 {
		t.Errorf("after that it is at %v, %v", got.Head, err)
	}
	if _, err := next.Append(t.Context(), journaltest.Next(head, [][]byte{[]byte("mine")}),
		[][]byte{[]byte("more")}); err != nil {
		t.Errorf("append after somebody read: %v", err)
	}
}

// read reads beside the writer.
func read(t testing.TB, j *postgres.Journal) (c journaltest.Content, err error) {
	t.Helper()
	c.Head, err = j.Read(t.Context(), func(head journal.Head, state []byte) error {
		c.Base, c.State = head, string(state)
		return nil
	}, func(r journal.Record) error {
		c.Records = append(c.Records, r)
		return nil
	})
	return c, err
}

// Of several one leads; when it is gone the next does, and what the first still tries is refused.
func TestLead(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	first, second := open(t, url), open(t, url)
	hold, err := first.Lead(t.Context(), func() { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	go func() { lost <- hold(t.Context()) }() // else the server ends its silent session
	head := history(t, first, 3).Head
	waits, leads := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := second.Lead(t.Context(), func() { close(waits) })
		leads <- err
	}()
	<-waits
	if _, err := open(t, url).AcceptLoss(t.Context()); !isRefused(err, "a broker leads it") {
		t.Errorf("accept-loss under a leader: %v", err)
	}
	if err := open(t, url).Begin(t.Context(), head, journal.State([]byte("state"))); !isRefused(err, "a broker leads it") {
		t.Errorf("restore under a leader: %v", err)
	}
	// As the server does with a leader that it does not hear from.
	server.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = hashtextextended('bourse journal in `+name+`', 0)`)
	if err := <-leads; err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err == nil || !strings.Contains(err.Error(), "another broker may have it") {
		t.Errorf("hold: %v, want that the lead is lost", err)
	}
	if _, err := journaltest.Read(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Append(t.Context(), head, [][]byte{[]byte("late")}); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("append of who led before: %v, want ErrConflict", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := first.Lead(ended, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("lead with an ended context: %v", err)
	}
}

func isRefused(err error, found string) bool {
	refused, ok := errors.AsType[*journal.RefusedError](err)
	return ok && strings.Contains(refused.Found, found) && refused.Remedy != ""
}

// Any damage to the tables, or another place, is refused, and the refusal changes nothing.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statements, found string }{
		"a flipped bit":      {"UPDATE %s.bourse_records SET events = set_bit(events, 40, 1 - get_bit(events, 40)) WHERE revision = 8", "record 8"},
		"a record changed":   {"UPDATE %s.bourse_records SET hash = events WHERE revision = 8", "record 8 does not continue"},
		"a record lost":      {"DELETE FROM %s.bourse_records WHERE revision = 8", "record 10 does not continue"},
		"the last lost":      {"DELETE FROM %s.bourse_records WHERE revision = 10", "its row says revision 10"},
		"a snapshot changed": {"UPDATE %s.bourse_state SET bytes = 'x'", "does not match its seal"},
		"a snapshot lost":    {"DELETE FROM %s.bourse_state", "does not match its seal"},
		"the row lost":       {"DELETE FROM %s.bourse_journal", "the row of bourse_journal is gone"},
		"the head put back":  {"UPDATE %s.bourse_journal SET revision = 8", "its row says revision 8"},
		"a table lost":       {"DROP TABLE %s.bourse_journal", "the table bourse_journal is gone"},
		"another format":     {"UPDATE %s.bourse_journal SET format = 2", "its format is 2, this version knows 1"},
		"another place":      {"UPDATE %s.bourse_journal SET place = '1/2/3'", "another place"},
	} {
		t.Run(name, func(t *testing.T) {
			schema, url := server.Schema(t)
			j := open(t, url)
			history(t, j, 5)
			j.Close()
			server.Exec(t, fmt.Sprintf(c.statements, schema))
			if _, err := journaltest.Read(t.Context(), j); !isRefused(err, c.found) {
				t.Errorf("load: %v, want refused: %s", err, c.found)
			}
			if _, err := read(t, j); !isRefused(err, c.found) {
				t.Errorf("read: %v, want refused: %s", err, c.found)
			}
			if _, err := j.Append(t.Context(), journal.Genesis(), [][]byte{[]byte("x")}); !errors.Is(err, journal.ErrNotLoaded) {
				t.Errorf("append to what was refused: %v", err)
			}
		})
	}
}

// What was recovered to a point in time, as what was restored from a dump, or a replica that was
// promoted, is another place: something may be missing. An operator may go on from it.
func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	own, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	_, url := own.Schema(t)
	j := open(t, url)
	if _, err := j.AcceptLoss(t.Context()); !errors.Is(err, postgres.ErrNone) {
		t.Errorf("accept the loss of nothing: %v", err)
	}
	j.Close()
	before := history(t, j, 5)
	own.Kill()
	if err := own.Launch(); err != nil {
		t.Fatal(err)
	}
	if _, err := journaltest.Read(t.Context(), j); err != nil {
		t.Errorf("after a restart it is no other place: %v", err)
	}
	j.Close()
	own.Recover(t)
	if _, err := journaltest.Read(t.Context(), j); !isRefused(err, "another place") {
		t.Errorf("load: %v, want refused", err)
	}
	head, err := j.AcceptLoss(t.Context())
	if err != nil || head.Lineage == before.Head.Lineage || head.Revision != before.Head.Revision {
		t.Fatalf("accept-loss after %v: %v, %v", before.Head, head, err)
	}
	j.Close()
	content, err := journaltest.Read(t.Context(), j)
	if err != nil || content.Head != head || content.State != before.State || len(content.Records) != len(before.Records) {
		t.Errorf("after accept-loss: %v, %v", content.Head, err)
	}
}

// What would lose what was acknowledged is refused, and no message holds the password.
func TestServersThatForget(t *testing.T) {
	t.Parallel()
	if _, err := postgres.New("postgres://broker:secret@host/market?synchronous_commit=off"); err == nil ||
		!strings.Contains(err.Error(), "want on or remote_apply") {
		t.Errorf("synchronous_commit=off: %v", err)
	}
	for _, url := range []string{"postgres://broker:secret@host:nan/market",
		"postgres://broker:secret@/market?host=/none"} {
		j, err := postgres.New(url)
		if err == nil {
			if !strings.Contains(j.Where, "broker@") {
				t.Errorf("it is called %s", j.Where)
			}
			_, err = journaltest.Read(t.Context(), j)
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for setting, found := range map[string]string{"fsync=off": "fsync = off",
		"full_page_writes=off": "full_page_writes = off"} {
		other, err := postgrestest.Start(setting)
		if err != nil {
			t.Fatal(err)
		}
		_, url := other.Schema(t)
		if _, err := journaltest.Read(t.Context(), open(t, url)); !isRefused(err, found) {
			t.Errorf("%s: %v", setting, err)
		}
		other.Stop()
	}
	_, url := server.Schema(t)
	server.Exec(t, "ALTER ROLE "+postgrestest.Role+" SET synchronous_commit = off") // which our sessions overrule
	if _, err := journaltest.Read(t.Context(), open(t, url)); err != nil {
		t.Error(err)
	}
}

// BenchmarkAppend appends batches of events of 200 bytes, each batch durable before the next.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			_, url := server.Schema(b)
			j := open(b, url)
			content, err := journaltest.Read(b.Context(), j)
			events := make([][]byte, size)
			for i := range events {
				events[i] = make([]byte, 200)
			}
			head := content.Head
			for b.Loop() && err == nil {
				head, err = j.Append(b.Context(), head, events)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(head.Revision)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
