package gate_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// testGate is milan's gate, with a broker that the test plays and a clock that it moves.
type testGate struct {
	*gate.Gate
	broker      *transporttest.Broker
	rome, milan *transporttest.Party
	clock       *transporttest.Clock
	t           testing.TB
	number      int64
}

// newGate opens milan's gate with so many CPUs, which it lends to everyone.
func newGate(t testing.TB, cpu string) *testGate {
	t.Helper()
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	return open(t, memorytest.New(), rome, milan, transporttest.NewClock(), cpu)
}

// open opens a gate over a journal: of a new cluster, or of one that starts again.
func open(t testing.TB, j journal.Journal, rome, milan *transporttest.Party,
	clock *transporttest.Clock, cpu string) *testGate {
	t.Helper()
	x := exchangetest.Open(t, j, exchange.Options{Self: milan.ID, Clock: clock, Resume: true, TickEvery: time.Millisecond})
	broker := &transporttest.Broker{}
	g := &testGate{rome: rome, milan: milan, broker: broker, clock: clock, t: t, Gate: gate.New(gate.Options{
		Cluster: milan.ID, Key: milan.Key, Market: x, Engine: match.New(), Broker: broker, Log: silent,
	})}
	if cpu != "" {
		g.measure(cpu, nil)
	}
	return g
}

// restart makes the gate again over the same Ledger, with other options.
func (g *testGate) restart(change func(*gate.Options)) {
	o := g.Options
	change(&o)
	g.Gate = gate.New(o)
}

// measure records what milan has now, and on which terms it lends that.
func (g *testGate) measure(cpu string, terms func(*api.Measurement)) {
	g.t.Helper()
	g.number++
	m := transporttest.Measurement(g.number, cpu)
	m.Sequence.Incarnation = g.Market.Now().Go().UnixMilli()
	if terms != nil {
		terms(&m)
	}
	measured, err := market.Measure(m)
	if err == nil {
		err = g.Market.Observe(context.Background(), g.milan.ID, measured, true)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *testGate) now() time.Time { return g.Market.Now().Go() }

// move moves the clock, while milan keeps measuring.
func (g *testGate) move(d time.Duration) {
	g.t.Helper()
	for ; d > 0; d -= 30 * time.Second {
		g.clock.Move(min(d, 30*time.Second), g.now)
		g.measure("8", nil)
	}
}

// deal returns a reservation of rome's at milan, which the broker holds.
func (g *testGate) deal(id, cpu string) *transporttest.Deal {
	return transporttest.NewDeal(g.rome, g.milan, id, cpu, g.now())
}

// ours returns what the Ledger says of a reservation.
func (g *testGate) ours(id string) (r *market.Reservation) {
	g.t.Helper()
	if err := g.Market.Read(context.Background(), func(s *market.State) { r = s.Reservation(id) }); err != nil {
		g.t.Fatal(err)
	}
	return r
}

// hears does what an agent does for each change at the broker and in its Ledger, until nothing changes.
func (g *testGate) hears(shown *transport.Reservation) error {
	g.t.Helper()
	for range 10 {
		before := g.ours(shown.ID)
		if err := g.Sync(context.Background(), shown, before); err != nil {
			return err
		}
		if after := g.ours(shown.ID); before == after {
			return nil
		}
	}
	g.t.Fatal("it never comes to rest")
	return nil
}

// heard checks that the gate handles what the broker shows, and makes just these calls.
func (g *testGate) heard(shown *transport.Reservation, asked ...string) {
	g.t.Helper()
	if err := g.hears(shown); err != nil {
		g.t.Fatalf("%s: %v", shown.Payload.State, err)
	}
	if got := g.broker.Asked(); !slices.Equal(got, asked) {
		g.t.Fatalf("the broker, which says %s, was asked %q, want %q", shown.Payload.State, got, asked)
	}
}

// waits checks that the gate returns an error to try again, and makes no call.
func (g *testGate) waits(shown *transport.Reservation, code api.Code) {
	g.t.Helper()
	if err := g.hears(shown); api.CodeOf(err) != code {
		g.t.Fatalf("%s: %v, want %s", shown.Payload.State, err, code)
	}
	if got := g.broker.Asked(); len(got) > 0 {
		g.t.Fatalf("the broker was asked %q", got)
	}
}

// holds checks the state of a reservation in the Ledger; an empty state means that it has none.
func (g *testGate) holds(id string, state api.State, reason api.Reason) {
	g.t.Helper()
	r := g.ours(id)
	if r == nil {
		r = &market.Reservation{}
	}
	if r.State != state || r.Reason != reason {
		g.t.Fatalf("the Ledger says %q %q of %s, want %q %q", r.State, r.Reason, id, state, reason)
	}
}

// left checks how many thousandths of a CPU the gate could still lend.
func (g *testGate) left(milli int64) {
	g.t.Helper()
	if got := g.Market.View().Listing(g.milan.ID).Pool(api.GeneralPool).Available.Of("cpu"); got != milli {
		g.t.Fatalf("%d thousandths are left, want %d", got, milli)
	}
}

// freshly measures the cluster for a refusal.
func freshly(context.Context, string) *api.Measurement {
	m := transporttest.Measurement(9, "1")
	return &m
}
