package reservations

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// brokersOf is an agent with sessions at its main broker, another broker, its own connector and the connector of
// oslo.
type brokersOf struct {
	*Reservations
	t                               *testing.T
	main, other, own, seller        *session.Session
	mainAsked, otherAsked, ownAsked *transporttest.Broker
}

func newBrokersOf(t *testing.T, self *transporttest.Party) *brokersOf {
	t.Helper()
	ctx, ledger := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: self.ID})
	measured, err := market.Measure(transporttest.Measurement(1, "8"))
	if err == nil {
		err = ledger.Observe(ctx, self.ID, measured, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &brokersOf{t: t, mainAsked: &transporttest.Broker{}, otherAsked: &transporttest.Broker{},
		ownAsked: &transporttest.Broker{}}
	log := slog.New(slog.DiscardHandler)
	open := func(via string, broker transport.Broker, lends bool) *session.Session {
		return session.New(session.Options{Via: via, Cluster: self.ID,
			Key: self.Key, Broker: broker, Lends: lends})
	}
	b.main, b.other, b.own, b.seller = open("", b.mainAsked, true), open("broker/north",
		b.otherAsked, true), open(self.ID, b.ownAsked, true), open("oslo", &transporttest.Broker{}, false)
	sessions := &session.Sessions{}
	b.Reservations = New(t.Context(), Options{
		Cluster: self.ID, Namespace: "bourse", Ledger: ledger, Sessions: sessions, Contracts: contracts{}, Log: log,
		Provider: Provider{
			Gate: gate.New(gate.Options{Cluster: self.ID, Key: self.Key,
				Market: ledger, Engine: match.New(), Broker: b.mainAsked, Log: log}),
			Instructions: instructions{}, Offers: offers{},
		},
		Consumer: Consumer{
			Borrower: requests.NewBorrower(requests.BorrowerOptions{Cluster: self.ID,
				Key: self.Key, Market: ledger, Broker: b.mainAsked, Log: log}),
			Requests: noRequests{},
		},
	})
	for _, s := range []*session.Session{b.main, b.own, b.other, b.seller} {
		sessions.Add(s)
	}
	return b
}

// These show nothing in Kubernetes, and know no request.
type (
	contracts    struct{}
	instructions struct{}
	offers       struct{}
	noRequests   struct{}
)

func (contracts) Show(context.Context, string, *market.Reservation) (time.Duration, error) {
	return 0, nil
}

func (instructions) Show(context.Context, *market.Reservation) (time.Duration, error) { return 0, nil }

func (offers) Look(string) {}

func (noRequests) Look(context.Context, *market.Reservation) (*requests.Wish, error) { return nil, nil }

// hears makes a session show a reservation, and returns what the Ledger then says.
func (b *brokersOf) hears(s *session.Session, shown *transport.Reservation) *market.Reservation {
	b.t.Helper()
	s.Record(shown)
	_ = b.settle(b.t.Context(), shown.ID)
	record, err := b.options.Ledger.Reservation(b.t.Context(), shown.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return record
}

// lying returns a state of a reservation with a lie in it.
func lying(shown *transport.Reservation, change func(*api.Reservation)) *transport.Reservation {
	lie := *shown
	lie.Payload.Fence = api.Fence{Lineage: "other", Revision: 1 << 60}
	change(&lie.Payload)
	return &lie
}

// No other broker drops, commits or changes what a provider accepted at one; nor does the connector
// of a seller.
func TestAnotherBrokerDecidesNothing(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	for name, lie := range map[string]func(*api.Reservation){
		"that it failed":               func(r *api.Reservation) { r.State = api.Failed },
		"that it is over":              func(r *api.Reservation) { r.State = api.Released },
		"that the main one took it":    func(r *api.Reservation) { r.State = api.Reserved },
		"that it ends, signed by none": func(r *api.Reservation) { r.State, r.End = api.Releasing, "x" },
		"another generation":           func(r *api.Reservation) { r.Generation = 7 },
	} {
		for who, liar := range map[string]func(*brokersOf) *session.Session{"broker": func(b *brokersOf) *session.Session { return b.other }, "seller": func(b *brokersOf) *session.Session { return b.seller }} {
			b := newBrokersOf(t, milan)
			d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
			before := b.hears(b.main, d.Signed()) // the main broker does not take the acceptance yet
			if before == nil || before.State != api.Held || before.Acceptance == "" {
				t.Fatalf("it is %+v", before)
			}
			b.mainAsked.Asked()
			if after := b.hears(liar(b), lying(d.Shown(), lie)); after.State != api.Held ||
				after.Generation != before.Generation || after.Fence != before.Fence {
				t.Errorf("another %s says %s: it is %s, %+v", who, name, after.State, after.Fence)
			}
			if asked := b.mainAsked.Asked(); slices.ContainsFunc(asked, func(s string) bool { return s != "Accept r-1" }) {
				t.Errorf("another %s says %s: the main one is told %q", who, name, asked)
			}
			b.mainAsked.OnAccept = func(_, acceptance string) (transport.Reservation,
				error) {
				return *d.Reserved(acceptance), nil
			}
			if after := b.hears(b.main, d.Shown()); after.State != api.Reserved {
				t.Errorf("after a lie that %s the main one's word makes it %s", name, after.State)
			}
		}
	}
}

// A signed end counts whichever broker passes it on.
func TestASignedEndComesByAnyBroker(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
	b.mainAsked.OnAccept = func(_, acceptance string) (transport.Reservation,
		error) {
		return *d.Reserved(acceptance), nil
	}
	if record := b.hears(b.main, d.Signed()); record.State != api.Reserved {
		t.Fatalf("it is %s", record.State)
	}
	if record := b.hears(b.other, d.Ending(rome, api.ReasonReleased)); record.State != api.Releasing {
		t.Errorf("it is %s", record.State)
	}
}

// A reservation is refused if another broker shows it under an ID that is in use.
func TestTwoBrokersBringOneID(t *testing.T) {
	rome, milan, oslo := transporttest.NewParty(t, "rome"), transporttest.NewParty(t,
		"milan"), transporttest.NewParty(t, "oslo")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
	b.hears(b.main, d.Signed())
	var refused []string
	b.otherAsked.OnRefuse = func(id string, r api.Refusal) (transport.Reservation, error) {
		refused = append(refused, id+" "+string(r.Reason))
		return transport.Reservation{}, nil
	}
	again := transporttest.NewDeal(oslo, milan, "r-1", "1", b.options.Ledger.Now().Go())
	if record := b.hears(b.other, again.Signed()); record.Consumer != "rome" ||
		!slices.Equal(refused, []string{"r-1 " + string(api.ReasonBadAssignment)}) {
		t.Errorf("it is %s's, and the other broker hears %q", record.Consumer, refused)
	}
}

// A seller cannot borrow from its buyer through its own connector.
func TestASellersConnectorBringsNoConsumer(t *testing.T) {
	oslo, milan := transporttest.NewParty(t, "oslo"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(oslo, milan, "r-1", "2", b.options.Ledger.Now().Go())
	if record := b.hears(b.seller, d.Signed()); record != nil {
		t.Errorf("admitted as if by %q", record.Via)
	}
}

// A broker's word counts for what it made, also if the own connector restored that first.
func TestABrokerBesideTheOwnConnector(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
	d.Signed()
	if record := b.hears(b.own, d.Reserved("")); record == nil || record.State != api.Reserved || record.Via != "milan" {
		t.Fatalf("it is %+v", record)
	}
	b.mainAsked.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *d.Changed(acceptance), nil }
	if record := b.hears(b.main, d.Changing("3", "")); record.Generation != 2 || record.Size.Of("cpu") != 3000 {
		t.Errorf("after a change by the broker it is %d, %v", record.Generation, record.Size)
	}
}

// notes makes rome's Ledger know what it asked oslo for: r-1, of 2 CPUs, which is held.
func (b *brokersOf) notes(shown *transport.Reservation) {
	b.t.Helper()
	size, err := amounts.ParseRequest("", transporttest.CPU("2"))
	if err != nil {
		b.t.Fatal(err)
	}
	note := market.Note{Reservation: &market.Reservation{ID: "r-1",
		State: api.Held, Consumer: "rome", Provider: "oslo", Pool: api.GeneralPool, Size: size,
		Generation: 1, Assignment: shown.Payload.Assignment, HeldUntil: market.At(shown.Payload.HeldUntil.Time), Until: market.At(shown.Payload.Until.Time)}}
	if _, err := b.options.Ledger.Do(b.t.Context(), note); err != nil {
		b.t.Fatal(err)
	}
}

// No other broker ends what a consumer asked for at one. Before it is bound, no seller's connector
// does either.
func TestAnotherBrokerEndsNoRequest(t *testing.T) {
	rome, oslo := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "oslo")
	b := newBrokersOf(t, rome)
	d := transporttest.NewDeal(rome, oslo, "r-1", "2", b.options.Ledger.Now().Go())
	shown := d.Signed()
	b.notes(shown)
	failed := func(r *api.Reservation) { r.State = api.Failed }
	for name, f := range map[string]*session.Session{"another broker": b.other, "the seller's connector": b.seller} {
		if record := b.hears(f, lying(shown, failed)); record.State != api.Held {
			t.Errorf("%s made it %s", name, record.State)
		}
	}
	if record := b.hears(b.main, lying(shown, failed)); record.State != api.Failed {
		t.Errorf("the broker where it was made did not end it: %s", record.State)
	}
}

// An agent that ends before its rooms run leaves nothing running.
func TestNeverRun(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	New(ctx, Options{})
	cancel()
	goleak.VerifyNone(t, before)
}
