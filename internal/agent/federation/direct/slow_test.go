package direct

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A session follows the connector of a seller that moves, also while something that was made there counts.
func TestAConnectorMoves(t *testing.T) {
	b := newBuyer(t)
	size, err := amounts.ParseRequest("", transporttest.CPU("2"))
	if err != nil {
		t.Fatal(err)
	}
	bergen, until := transporttest.NewParty(t, "bergen"), market.At(b.clock.Now().Add(time.Hour))
	shows := func(connector string) {
		t.Helper()
		card := bergen.Card(api.Properties{Connector: connector})
		if _, _, err := (trust.Demand{}).Meet(t.Context(), b.Ledger, card, "bergen"); err != nil {
			t.Fatal(err)
		}
	}
	shows("https://127.0.0.1:1")
	note := market.Note{Reservation: &market.Reservation{ID: "r-1", State: api.Held, Consumer: "rome",
		Provider: "bergen", Pool: api.GeneralPool, Size: size, Generation: 1, Via: "bergen", HeldUntil: until, Until: until}}
	if _, err := b.Ledger.Do(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	open := func() (found *session.Session) {
		t.Helper()
		b.look(t.Context())
		for _, s := range b.Sessions.Open() {
			if s.Via == "bergen" && found != nil {
				t.Fatal("there are two sessions")
			} else if s.Via == "bergen" {
				found = s
			}
		}
		return found
	}
	first := open()
	if first == nil || open() != first {
		t.Fatal("it has no session, or another one")
	}
	shows("https://127.0.0.1:2")
	if second := open(); second == nil || second == first {
		t.Error("it still calls where the connector was")
	}
	shows("")
	if open() == nil {
		t.Error("without an address the session is closed")
	}
}

// busyJournal does not answer the next append.
type busyJournal struct {
	*memorytest.Journal
	busy atomic.Bool
}

func (j *busyJournal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	if j.busy.Swap(false) {
		return journal.Head{}, errors.New("etcdserver: request timed out")
	}
	return j.Journal.Append(ctx, after, events)
}

// A choice that the Ledger could not record counts once it can.
func TestAChoiceWhileTheLedgerIsBusy(t *testing.T) {
	b, j := newBuyer(t), &busyJournal{Journal: memorytest.New()}
	b.Ledger = exchangetest.Open(t, j, exchange.Options{Self: "rome", Resume: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	j.busy.Store(true)
	b.RecordChoice(ctx, "", &[]string{"oslo"})
	running := make(chan error, 1)
	go func() { running <- b.Run(ctx) }()
	for end := time.Now().Add(30 * time.Second); b.isChosen(ctx, "milan"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("milan counts as chosen")
		}
	}
	stop()
	if err := <-running; err != nil {
		t.Error(err)
	}
}
