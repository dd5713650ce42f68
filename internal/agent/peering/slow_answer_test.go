package peering

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A consumer asks again while the answer to its former message is being made. It gets an answer to each.
func TestAMessageThatComesDuringAnAnswer(t *testing.T) {
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(t.Context(), market.Pin{Cluster: "milan", Key: milan.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	broker := &counting{}
	m := NewMessenger(MessengerOptions{Clock: clock.RealClock{},
		Cluster: "rome", Key: rome.Key, Market: ledger, Relay: broker,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	asks := func() *api.Handshake {
		h := &api.Handshake{Session: "s", Expires: transporttest.Seconds(time.Now().Add(time.Minute))}
		m.received[api.PeeringName("milan", api.RoleConsumer)] = h
		return m.Newest("milan", api.RoleConsumer)
	}
	p := peering.Progress{Open: true, Session: "s", Say: &api.HandshakeContent{Identity: &api.HandshakeIdentity{}}}
	first := asks()
	second := asks()
	for i, received := range []*api.Handshake{first, second} {
		if err := m.Send(t.Context(), "milan", api.RoleConsumer, received, p); err != nil || broker.sent != i+1 {
			t.Errorf("after message %d it has %d answers, %v", i+1, broker.sent, err)
		}
	}
}

// A provider whose answer may be lost repeats it after a while, also in an open peering, and stops when the consumer
// has acted.
func TestAnAnswerThatIsLost(t *testing.T) {
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	milan, rome := transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "rome")
	if _, err := ledger.Do(t.Context(), market.Pin{Cluster: "rome", Key: rome.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	broker, now := &counting{}, clocktesting.NewFakePassiveClock(time.Now())
	m := NewMessenger(MessengerOptions{Clock: now, Cluster: "milan", Key: milan.Key, Market: ledger, Relay: broker,
		Log: slog.New(slog.DiscardHandler)})
	p := peering.Progress{Open: true, Repeat: true, Session: "s",
		Say: &api.HandshakeContent{Identity: &api.HandshakeIdentity{}}}
	sends := func(want int, when string) {
		t.Helper()
		if err := m.Send(t.Context(), "rome", api.RoleConsumer, nil, p); err != nil || broker.sent != want {
			t.Errorf("%s: sent %d times, want %d, %v", when, broker.sent, want, err)
		}
	}
	sends(1, "at first")
	sends(1, "at once")
	now.SetTime(now.Now().Add(repeatAfter))
	sends(2, "after a while")
	now.SetTime(now.Now().Add(repeatAfter))
	p.Repeat = false
	sends(2, "after the consumer has acted")
}
