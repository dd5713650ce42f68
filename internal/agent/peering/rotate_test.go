package peering

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A message by a new key counts once the broker shows its sender's card, if the two clusters share
// a reservation. A message for a former key of this cluster counts, too.
func TestMessagesAfterARotation(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	deal := transporttest.NewDeal(rome, milan, "r-1", "2", ledger.Now().Go())
	if _, _, err := (trust.Demand{}).Meet(ctx, ledger, milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	broker := &transporttest.Broker{OnReservation: func() (transport.Reservation, error) { return *deal.Greeted(), nil }}
	received := 0
	oldRome, _ := rome.Rotate(), milan.Rotate()
	m := NewMessenger(MessengerOptions{Clock: clock.RealClock{},
		Cluster: "rome", Key: rome.Key, Former: []string{oldRome.Key.Public().Fingerprint().String()},
		Market: ledger, Relay: broker, Log: log,
		Received: func(string, api.PeeringRole) { received++ }})
	expiring := func(by, to *transporttest.Party, in time.Duration) string {
		return by.Sign(api.DocumentHandshake, api.Handshake{
			Protocol: api.Protocol, From: "milan", FromKey: by.Key.Public().Fingerprint().String(), To: "rome", ToKey: to.Key.Public().Fingerprint().String(),
			Consumer: "rome", Session: "s", Expires: transporttest.Seconds(ledger.Now().Go().Add(in)),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
		})
	}
	message := func(by, to *transporttest.Party) string { return expiring(by, to, messageLasts) }
	if m.Receive(ctx, message(milan, rome)); received > 0 {
		t.Error("a message of a cluster without a reservation is received")
	}
	size, _ := amounts.ParseRequest("", transporttest.CPU("2"))
	note := market.Note{Reservation: &market.Reservation{ID: "r-1",
		State: api.Reserved, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size,
		Until: market.At(deal.Shown().Payload.Until.Time)}}
	if _, err := ledger.Do(ctx, note); err != nil {
		t.Fatal(err)
	}
	if m.Receive(ctx, message(transporttest.NewParty(t, "milan"), rome)); received > 0 {
		t.Error("a stranger is received")
	}
	if m.Receive(ctx, message(milan, rome)); received != 1 {
		t.Error("the new key is not received")
	}
	if m.Receive(ctx, message(milan, oldRome)); received != 2 {
		t.Error("a message for the former key is not received")
	}
	next := *milan
	former := next.Rotate()
	last := expiring(former, rome, 24*time.Hour)
	if m.Receive(ctx, last); received != 2 {
		t.Error("a message that expires in a day is received: it makes all others old until then")
	}
	if m.Receive(ctx, expiring(former, rome, messageLasts+time.Minute)); received != 3 {
		t.Error("a message by a clock that is a minute ahead is not received")
	}
	if _, _, err := (trust.Demand{}).Meet(ctx, ledger, next.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	if m.Receive(ctx, message(&next, rome)); received != 4 {
		t.Error("the successor of a key is not received, because that key's last message expires later")
	}
}
