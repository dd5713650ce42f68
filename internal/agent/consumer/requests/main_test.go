package requests_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// borrower is rome's agent, with a broker that the test plays and a clock that it moves.
type borrower struct {
	*requests.Borrower
	broker      *transporttest.Broker
	rome, milan *transporttest.Party
	clock       *transporttest.Clock
	wish        *requests.Wish // nil once its object is gone
	places      requests.Places
	t           testing.TB
}

// newBorrower returns a borrower that wants 2 CPUs for an hour.
func newBorrower(t testing.TB) *borrower {
	t.Helper()
	return again(t, transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan"), transporttest.NewClock())
}

// again returns an agent with an empty Ledger: of a new cluster, or of one that lost it.
func again(t testing.TB, rome, milan *transporttest.Party, clock *transporttest.Clock) *borrower {
	t.Helper()
	x := exchangetest.Open(t, nil, exchange.Options{Self: rome.ID,
		Clock: clock, Resume: true, TickEvery: time.Millisecond})
	broker := &transporttest.Broker{}
	return &borrower{
		rome: rome, milan: milan, broker: broker, clock: clock, t: t,
		Borrower: requests.NewBorrower(requests.BorrowerOptions{Cluster: rome.ID,
			Key: rome.Key, Market: x, Broker: broker, Log: silent}),
		wish: &requests.Wish{Object: market.Object{Namespace: "default", Name: "r", UID: "uid-1"},
			Request: transporttest.Request("2")},
	}
}

// restart makes the borrower again over the same Ledger, with other options.
func (b *borrower) restart(change func(*requests.BorrowerOptions)) {
	o := b.BorrowerOptions
	change(&o)
	b.Borrower = requests.NewBorrower(o)
}

func (b *borrower) now() time.Time { return b.Market.Now().Go() }

func (b *borrower) move(d time.Duration) { b.clock.Move(d, b.now) }

// deal returns what the broker holds for rome.
func (b *borrower) deal() *transporttest.Deal {
	return transporttest.NewDeal(b.rome, b.milan, "r-1", "2", b.now())
}

// offers makes the broker answer every request with what a deal shows.
func (b *borrower) offers(show func() *transport.Reservation) {
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) { return *show(), nil }
}

// takes makes the broker record the assignment of a deal, and no other.
func (b *borrower) takes(d *transporttest.Deal) {
	b.broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) {
		if d.Shown().Payload.Assignment == "" {
			var signed api.Assignment
			if err := clusterkey.Verify(assignment, api.DocumentAssignment, d.Consumer.Key.Public(), &signed); err != nil ||
				signed.Differs(d.Consumer.Assignment(*d.Shown())) != nil {
				b.t.Errorf("it signed something else than what is held: %+v, %v", signed, err)
			}
			return *d.SignedAs(assignment), nil
		}
		return *d.Shown(), nil
	}
}

// bound makes a reservation, and returns it when both sides are bound.
func (b *borrower) bound() *transporttest.Deal {
	b.t.Helper()
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	return d
}

// asked asks for what is wished, and checks the calls to the broker.
func (b *borrower) asked(calls ...string) {
	b.t.Helper()
	if err := b.Ask(context.Background(), *b.wish); err != nil {
		b.t.Fatal(err)
	}
	b.wasAsked(calls...)
}

func (b *borrower) wasAsked(calls ...string) {
	b.t.Helper()
	if got := b.broker.Asked(); !slices.Equal(got, calls) {
		b.t.Fatalf("the broker was asked %q, want %q", got, calls)
	}
}

// refusesToAsk checks that nothing is signed for what the broker answers.
func (b *borrower) refusesToAsk(code api.Code) {
	b.t.Helper()
	if err := b.Ask(context.Background(), *b.wish); api.CodeOf(err) != code {
		b.t.Errorf("%v, want %s", err, code)
	}
	b.wasAsked("Reserve uid-1")
}

func (b *borrower) ours() (r *market.Reservation) {
	b.t.Helper()
	if err := b.Market.Read(context.Background(), func(s *market.State) { r = s.Reservation("r-1") }); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// holds checks the state in the Ledger; an empty state means that it has none.
func (b *borrower) holds(state api.State, reason api.Reason) {
	b.t.Helper()
	r := b.ours()
	if r == nil {
		r = &market.Reservation{}
	}
	if r.State != state || r.Reason != reason {
		b.t.Fatalf("the Ledger says %q %q, want %q %q", r.State, r.Reason, state, reason)
	}
}

// hears does what an agent does for each change at the broker and in its Ledger, until nothing
// changes, and checks the calls to the broker.
func (b *borrower) hears(shown *transport.Reservation, calls ...string) {
	b.t.Helper()
	for range 10 {
		before := b.ours()
		if before == nil {
			break // its request's controller takes it up, or nobody
		}
		if err := b.Sync(context.Background(), shown, before, b.wish); err != nil {
			b.t.Fatalf("%s: %v", shown.Payload.State, err)
		}
		if b.ours() == before {
			break
		}
	}
	b.wasAsked(calls...)
}

// isGone deletes the request.
func (b *borrower) isGone() {
	b.t.Helper()
	b.wish = nil
	if err := b.End(context.Background(), b.ours()); err != nil {
		b.t.Fatal(err)
	}
}
