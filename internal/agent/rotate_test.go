package agent

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A message by a new key of a cluster with which there is a reservation is heard, once the broker shows the card; so is one to a
// key that this cluster had.
func TestLettersAfterARotation(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	deal := transporttest.NewDeal(rome, milan, "r-1", "2", ledger.Now().Go())
	if _, _, err := (trust.Demand{}).Meet(ctx, ledger, milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	broker := &transporttest.Broker{OnReservation: func() (transport.Reservation, error) { return *deal.Greeted(), nil }}
	heard := 0
	oldRome, _ := rome.Rotate(), milan.Rotate()
	l := &letters{cluster: "rome", key: rome.Key, former: []string{oldRome.Key.Public().Fingerprint().String()}, market: ledger, broker: broker, log: log,
		heard: map[string]*api.Handshake{}, said: map[string]said{}, came: func(string, api.PeeringRole) { heard++ }}
	expiring := func(by, to *transporttest.Party, in time.Duration) string {
		return by.Sign(api.DocumentHandshake, api.Handshake{
			Protocol: api.Protocol, From: "milan", FromKey: by.Key.Public().Fingerprint().String(), To: "rome", ToKey: to.Key.Public().Fingerprint().String(),
			Consumer: "rome", Session: "s", Expires: transporttest.Seconds(ledger.Now().Go().Add(in)),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
		})
	}
	letter := func(by, to *transporttest.Party) string { return expiring(by, to, letterLasts) }
	if l.receive(ctx, letter(milan, rome)); heard > 0 {
		t.Error("heard of a cluster with which there is nothing")
	}
	size, _ := market.Need("", transporttest.CPU("2"))
	note := market.Note{Reservation: &market.Reservation{ID: "r-1", State: api.Reserved, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size,
		Until: market.At(deal.Shown().Payload.Until.Time)}}
	if _, err := ledger.Do(ctx, note); err != nil {
		t.Fatal(err)
	}
	if l.receive(ctx, letter(transporttest.NewParty(t, "milan"), rome)); heard > 0 {
		t.Error("a stranger is heard")
	}
	if l.receive(ctx, letter(milan, rome)); heard != 1 {
		t.Error("the new key is not heard")
	}
	if l.receive(ctx, letter(milan, oldRome)); heard != 2 {
		t.Error("what is for the key that this cluster had is not heard")
	}
	next := *milan
	former := next.Rotate()
	last := expiring(former, rome, 24*time.Hour)
	if l.receive(ctx, last); heard != 2 {
		t.Error("a message that expires in a day is heard: it makes all others old until then")
	}
	if l.receive(ctx, expiring(former, rome, letterLasts+time.Minute)); heard != 3 {
		t.Error("a message by a clock that is a minute ahead is not heard")
	}
	if _, _, err := (trust.Demand{}).Meet(ctx, ledger, next.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	if l.receive(ctx, letter(&next, rome)); heard != 4 {
		t.Error("the successor of a key is not heard, because that key's last message expires later")
	}
}

// What people see of a key that succeeded a confirmed one: it is believed, and they are told what to say now.
func TestARotatedPeer(t *testing.T) {
	milan := transporttest.NewParty(t, "milan")
	m := &market.Member{Cluster: "milan", Key: milan.Key.Public().String(), Trusted: "SHA256:old", Confirmed: true}
	var s api.PeerStatus
	(&peers{wrong: map[string]wrong{}}).describe(&s, "milan", m, nil, 1)
	now := milan.Key.Public().Fingerprint().String()
	if c := s.Conditions[0]; c.Reason != "Rotated" || c.Status != "True" || s.Fingerprint != now || !strings.Contains(c.Message, "bourse trust milan "+now) {
		t.Errorf("%+v", s)
	}
}
