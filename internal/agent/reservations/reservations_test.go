package reservations

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// runs runs the reservations of a cluster until the test ends.
func (b *brokersOf) runs() {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = b.Run(ctx) })
	b.t.Cleanup(func() { stop(); done.Wait() })
}

// becomes waits until the Ledger says that a reservation is in a state.
func (b *brokersOf) becomes(id string, state api.State) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		record, err := b.options.Ledger.Reservation(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if record != nil && record.State == state {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not become %s: %+v", id, state, record)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Of fifty brokers one never answers, and has more reservations than there are workers. It holds up
// none of the others, and its own are settled once it answers.
func TestABrokerThatNeverAnswers(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	answers := make(chan struct{})
	b.runs()
	t.Cleanup(sync.OnceFunc(func() { // before Run is awaited
		select {
		case <-answers:
		default:
			close(answers)
		}
	}))
	open := func(name string, ids []string, accepts func()) {
		deals := map[string]*transporttest.Deal{}
		var mu sync.Mutex
		broker := &transporttest.Broker{OnAccept: func(id, acceptance string) (transport.Reservation, error) {
			accepts()
			mu.Lock()
			defer mu.Unlock()
			return *deals[id].Reserved(acceptance), nil
		}}
		s := session.New(session.Options{Via: "broker/" + name,
			Cluster: milan.ID, Key: milan.Key, Broker: broker, Lends: true})
		b.options.Sessions.Add(s)
		var shown []*transport.Reservation
		for _, id := range ids {
			deals[id] = transporttest.NewDeal(rome, milan, id, "10m", b.options.Ledger.Now().Go())
			shown = append(shown, deals[id].Signed())
		}
		for _, theirs := range shown {
			s.Record(theirs)
			b.Look(theirs.ID)
		}
	}
	var silent, others []string
	for i := range 2 * workers {
		silent = append(silent, fmt.Sprintf("silent-%d", i))
	}
	open("silent", silent, func() { <-answers })
	for i := range 49 {
		id := fmt.Sprintf("r-%d", i)
		open(fmt.Sprintf("b-%d", i), []string{id}, func() {})
		others = append(others, id)
	}
	for _, id := range others {
		b.becomes(id, api.Reserved)
	}
	close(answers)
	for _, id := range silent {
		b.becomes(id, api.Reserved)
	}
}

// After an error a reservation is looked at again, without another change.
func TestTriesAgain(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
	signed := d.Signed()
	calls := 0
	b.mainAsked.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		if calls++; calls < 3 {
			return transport.Reservation{}, transporttest.Away
		}
		return *d.Reserved(acceptance), nil
	}
	b.main.Record(signed)
	b.runs()
	b.Look("r-1")
	b.becomes("r-1", api.Reserved)
}
