package broker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/postgres/postgrestest"
	"github.com/bourse-dev/bourse/internal/market"
)

// After a possible loss of history, unused join tokens are dropped in any store, and used ones stay used. The
// command may be repeated.
func TestLostHistoryVoidsTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a real PostgreSQL")
	}
	server, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	for name, where := range map[string]func() string{
		"SQLite":     func() string { return "" },
		"PostgreSQL": func() string { _, url := server.Schema(t); return url },
	} {
		t.Run(name, func(t *testing.T) {
			dir, url := t.TempDir(), where()
			open := func() broker.Store {
				t.Helper()
				store, err := broker.OpenStore(dir, url)
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
			written(t, open(),
				market.Event{Time: 1, Token: &market.Token{ID: "used", Hash: "h", Expires: 9, UsedBy: "rome"}},
				market.Event{Time: 2, Token: &market.Token{ID: "unspent", Hash: "h", Expires: 9}},
				market.Event{Time: 3, Member: &market.Member{Cluster: "rome", State: api.MemberActive}},
			)
			backup, err := broker.BackupStore(t.Context(), dir, open())
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := broker.AcceptLoss(t.Context(), open())
			if err != nil || accepted.Void != 1 || accepted.Since != market.Time(3).Go() || len(accepted.Members) != 1 {
				t.Errorf("accept-loss: %+v, %v", accepted, err)
			}
			keeps(t, open(), accepted.Head, "used")
			again, err := broker.AcceptLoss(t.Context(), open())
			if err != nil || again.Void != 0 || again.Head.Lineage == accepted.Head.Lineage {
				t.Errorf("accept-loss again: %+v, %v", again, err)
			}
			keeps(t, open(), again.Head, "used")

			data, err := backup.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if backup, _, err = broker.DecodeBackup(data); err != nil {
				t.Fatal(err)
			}
			dir, url = t.TempDir(), where()
			restored, err := backup.Restore(t.Context(), dir, open())
			if err != nil || restored.Void != 1 || restored.Since != backup.Taken || len(restored.Members) != 1 {
				t.Errorf("restore: %+v, %v", restored, err)
			}
			keeps(t, open(), restored.Head, "used")
			written(t, open(), market.Event{Time: 4, Token: &market.Token{ID: "later", Hash: "h", Expires: 9}}) // and it goes on
		})
	}
}

// written appends events to a store.
func written(t *testing.T, store broker.Store, events ...market.Event) {
	t.Helper()
	defer store.Close()
	head, err := store.Load(t.Context(), func(journal.Head, []byte) error { return nil },
		func(journal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var batch [][]byte
	for _, e := range events {
		data, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, data)
	}
	if _, err := store.Append(context.Background(), head, batch); err != nil {
		t.Fatal(err)
	}
}

// keeps demands that a store is where it was said to be, and holds these tokens.
func keeps(t *testing.T, store broker.Store, at journal.Head, tokens string) {
	t.Helper()
	defer store.Close()
	state, head, err := broker.ReadStore(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, token := range state.Tokens() {
		found = append(found, token.ID)
	}
	if got := strings.Join(found, " "); head != at || got != tokens {
		t.Errorf("at %v, want %v; tokens %q, want %q", head, at, got, tokens)
	}
}
