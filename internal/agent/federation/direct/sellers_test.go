package direct

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// buyer is rome, which has the brokers main and north. It knows milan, which has a connector where nobody
// listens, and oslo, which has none.
type buyer struct {
	*Sellers
	clock       *testclock.FakeClock
	main, north *session.Session
}

func newBuyer(t *testing.T) *buyer {
	t.Helper()
	rome, ledger := transporttest.NewParty(t, "rome"), exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	for name, connector := range map[string]string{"milan": "https://127.0.0.1:1", "oslo": ""} {
		card := transporttest.NewParty(t, name).Card(api.Properties{Connector: connector})
		if _, _, err := (trust.Demand{}).Meet(t.Context(), ledger, card, name); err != nil {
			t.Fatal(err)
		}
	}
	b := &buyer{clock: testclock.NewFakeClock(time.Now())}
	open := func(via, name string) *session.Session {
		return session.New(session.Options{
			Via: via, Cluster: "rome", Key: rome.Key, Broker: &transporttest.Broker{}, Lends: true, Switch: session.NewSwitch(name, nil), Clock: b.clock,
		})
	}
	b.main, b.north = open("", api.MainBroker), open("broker/north", "north")
	sessions := &session.Sessions{}
	sessions.Add(b.main)
	sessions.Add(b.north)
	b.Sellers = NewSellers(SellersOptions{
		Cluster: "rome", Key: rome.Key, Ledger: ledger, Sessions: sessions, Clock: b.clock, Log: slog.New(slog.DiscardHandler),
		Addresses: peeraddress.New(peeraddress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
	})
	return b
}

// loses notes that calls of sessions failed.
func loses(sessions ...*session.Session) {
	for _, s := range sessions {
		s.Connection().Record(transporttest.Away)
	}
}

func TestChoose(t *testing.T) {
	buys := func(seller string) api.Request {
		return api.Request{Purchase: &api.Purchase{Seller: seller}}
	}
	held := func(via string) *market.Reservation {
		return &market.Reservation{ID: "r-1", Consumer: "rome", Provider: "milan", State: api.Held, Via: via}
	}
	bound := func(via, provider string) *market.Reservation {
		return &market.Reservation{ID: "r-1", Consumer: "rome", Provider: provider, State: api.Reserved, Via: via}
	}
	nothing := func(*buyer) {}
	loseMain := func(b *buyer) { loses(b.main) }
	loseAll := func(b *buyer) { loses(b.main, b.north) }
	chooseNone := func(b *buyer) { b.RecordChoice(t.Context(), "", &[]string{}) }
	for name, c := range map[string]struct {
		before  func(*buyer)
		broker  string
		request api.Request
		at      api.Via
		ours    *market.Reservation
		via     string
		none    api.Code // why there is no session
	}{
		"the first broker":                        {before: nothing, via: ""},
		"the first broker that answers":           {before: loseMain, via: "broker/north"},
		"a purchase where a broker answers":       {before: loseMain, request: buys("milan"), via: "broker/north"},
		"a purchase whose seller does not answer": {before: nothing, request: buys("milan"), at: api.ViaAuto, via: ""},
		"a purchase at its seller only": {before: nothing,
			request: buys("milan"), at: api.ViaDirect, via: "milan"},
		"a purchase of a seller that was not chosen": {before: chooseNone,
			request: buys("milan"), at: api.ViaDirect, none: api.CodeForbidden},
		"a purchase that another broker's choice omits": {
			before:  func(b *buyer) { b.RecordChoice(t.Context(), "broker/north", &[]string{"oslo"}) },
			request: buys("milan"), at: api.ViaDirect, none: api.CodeForbidden},
		"a purchase that one of two choices names": {
			before:  func(b *buyer) { chooseNone(b); b.RecordChoice(t.Context(), "broker/north", &[]string{"milan"}) },
			request: buys("milan"), at: api.ViaDirect, via: "milan"},
		"such a purchase while no broker answers": {before: func(b *buyer) { chooseNone(b); loseAll(b) },
			request: buys("milan"), none: api.CodeForbidden},
		"such a purchase where the broker is disabled": {before: func(b *buyer) { chooseNone(b); b.main.SetEnabled(false) },
			request: buys("milan"), at: api.ViaDirect, via: "milan"},
		"a purchase at a broker":                   {before: nothing, request: buys("milan"), at: api.ViaBroker, via: ""},
		"a purchase while none does":               {before: loseAll, request: buys("milan"), via: "milan"},
		"a purchase of a seller without connector": {before: loseAll, request: buys("oslo"), none: api.CodeUnavailable},
		"a purchase of a seller that nobody knows": {before: loseAll, request: buys("paris"), none: api.CodeUnavailable},
		"no purchase while no broker answers":      {before: loseAll, via: ""},
		"a broker by name":                         {before: nothing, broker: "north", via: "broker/north"},
		"a broker by name that does not answer":    {before: loseAll, broker: "north", via: "broker/north"},
		"a broker that there is not":               {before: nothing, broker: "south", none: api.CodeInvalid},
		"what was held at a broker stays there":    {before: loseAll, ours: held("broker/north"), via: "broker/north"},
		"what was held at a connector stays there": {before: nothing, ours: held("milan"), via: "milan"},
		"what is bound, at its broker": {before: nothing,
			ours: bound("broker/north", "milan"), via: "broker/north"},
		"what is bound, while its broker is lost":   {before: loseMain, ours: bound("", "milan"), via: "milan"},
		"what is bound, and there is no connector":  {before: loseMain, ours: bound("", "oslo"), via: ""},
		"what is bound at a broker that is removed": {before: nothing, ours: bound("broker/south", "milan"), via: "milan"},
		"all brokers are disabled": {before: func(b *buyer) {
			b.main.SetEnabled(false)
			b.north.SetEnabled(false)
		}, via: ""},
	} {
		b := newBuyer(t)
		c.before(b)
		session, err := b.choose(t.Context(), api.ResourceRequestSpec{Broker: c.broker,
			Request: c.request, Via: c.at}, c.ours)
		switch {
		case c.none != "":
			if session != nil || api.CodeOf(err) != c.none {
				t.Errorf("%s: %v, %v", name, session, err)
			}
		case session == nil:
			t.Errorf("%s: no session, %v", name, err)
		case session.Via != c.via:
			t.Errorf("%s: at %q, want %q", name, session.Via, c.via)
		case (err != nil) != (session.Via == "milan"): // rome has no card to show there
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session with a seller is open as long as something that was made there counts, and a minute after it
// was chosen. After Run none is opened.
func TestSessionsWithSellers(t *testing.T) {
	b := newBuyer(t)
	isOpen := func(when string, want bool) {
		t.Helper()
		b.look(t.Context())
		has := false
		for _, s := range b.Sessions.Open() {
			has = has || s.Via == "milan"
		}
		if has != want {
			t.Errorf("%s: open is %v", when, has)
		}
	}
	isOpen("at first", false)
	if _, err := b.choose(t.Context(), api.ResourceRequestSpec{}, &market.Reservation{Via: "milan"}); err == nil {
		t.Error("a cluster without a card is let in")
	}
	isOpen("after it was chosen", true)
	b.clock.Step(keepChosen + time.Second)
	isOpen("a minute later", false)
	size, err := amounts.ParseRequest("", transporttest.CPU("2"))
	if err != nil {
		t.Fatal(err)
	}
	until := market.At(b.clock.Now().Add(time.Hour))
	note := market.Note{Reservation: &market.Reservation{
		ID: "r-1", State: api.Held, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size, Generation: 1, Via: "milan", HeldUntil: until, Until: until,
	}}
	if _, err := b.Ledger.Do(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	isOpen("while a reservation counts", true)
	b.clock.Step(keepChosen + time.Second)
	isOpen("while it still counts", true)
	running := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { running <- b.Run(ctx) }()
	stop()
	if err := <-running; err != nil {
		t.Error(err)
	}
	isOpen("at the end", false)
}

// While no broker answers, the offers of those are asked whose connector is known. One that does not answer
// is left out.
func TestCatalogOfConnectors(t *testing.T) {
	b := newBuyer(t)
	if found := b.Catalog(t.Context(), api.CatalogQuery{}, false); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	if _, err := b.call(t.Context(), "oslo", maxList); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("without a connector: %v", err)
	}
}
