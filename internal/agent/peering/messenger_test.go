package peering

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Only messages are believed that a pinned key signed for this cluster and that are valid now.
func TestReceive(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan, oslo, stranger := transporttest.NewParty(t, "rome"), transporttest.NewParty(t,
		"milan"), transporttest.NewParty(t, "oslo"), transporttest.NewParty(t, "milan")
	for _, p := range []*transporttest.Party{milan, oslo} {
		if _, err := ledger.Do(ctx, market.Pin{Cluster: p.ID, Key: p.Key.Public().String()}); err != nil {
			t.Fatal(err)
		}
	}
	came := 0
	m := NewMessenger(MessengerOptions{Clock: clock.RealClock{}, Cluster: "rome", Key: rome.Key, Market: ledger,
		Log: log, Received: func(string, api.PeeringRole) { came++ }})
	say := func(by *transporttest.Party, change func(*api.Handshake)) string {
		h := api.Handshake{
			Protocol: api.Protocol, From: "milan", FromKey: by.Key.Public().Fingerprint().String(), To: "rome", ToKey: rome.Key.Public().Fingerprint().String(),
			Consumer: "rome", Session: "s", Expires: transporttest.Seconds(time.Now().Add(time.Minute)),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
		}
		change(&h)
		return by.Sign(api.DocumentHandshake, h)
	}
	same := func(*api.Handshake) {}
	for name, document := range map[string]string{
		"nonsense":                      "x",
		"signed by a key nobody pinned": say(stranger, same),
		"signed by another":             say(oslo, same),
		"for another cluster":           say(milan, func(h *api.Handshake) { h.To = "oslo" }),
		"for another key": say(milan,
			func(h *api.Handshake) { h.ToKey = oslo.Key.Public().Fingerprint().String() }),
		"by another key":     say(milan, func(h *api.Handshake) { h.FromKey = h.ToKey }),
		"of others' peering": say(milan, func(h *api.Handshake) { h.Consumer = "oslo" }),
		"expired": say(milan,
			func(h *api.Handshake) { h.Expires = transporttest.Seconds(time.Now().Add(-time.Minute)) }),
		"of another kind": milan.Sign(api.DocumentEnd, api.Handshake{From: "milan", To: "rome"}),
	} {
		m.Receive(ctx, document)
		if came > 0 || m.Newest("milan", api.RoleProvider) != nil {
			t.Fatalf("%s is believed", name)
		}
	}
	m.Receive(ctx, say(milan, same))
	if h := m.Newest("milan", api.RoleProvider); came != 1 || h == nil ||
		h.Session != "s" || m.Newest("milan", api.RoleConsumer) != nil {
		t.Fatalf("received %+v, %d times", h, came)
	}
	m.Receive(ctx, say(milan, func(h *api.Handshake) { h.Consumer = "milan" }))
	if m.Newest("milan", api.RoleConsumer) == nil {
		t.Error("the other direction is not received")
	}
	m.Receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires = "old", transporttest.Seconds(time.Now().Add(10*time.Second))
	}))
	if h := m.Newest("milan", api.RoleProvider); h.Session != "s" {
		t.Error("an older message replaces a newer one")
	}
	m.Receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires = "new", transporttest.Seconds(time.Now().Add(2*time.Minute))
	}))
	if h := m.Newest("milan", api.RoleProvider); h.Session != "new" {
		t.Error("a newer message is not received")
	}
	until := m.Newest("milan", api.RoleProvider).Expires
	m.Receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires, h.HandshakeContent = "new", until, api.HandshakeContent{Identity: &api.HandshakeIdentity{Namespace: "n"}}
	}))
	if h := m.Newest("milan", api.RoleProvider); h.Identity == nil {
		t.Error("the next message of the same second is not received")
	}
}

// A message that comes by two sessions, or again, is received once.
func TestMessagesComeByEverySession(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(ctx, market.Pin{Cluster: "milan", Key: milan.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	came := 0
	m := NewMessenger(MessengerOptions{Clock: clock.RealClock{}, Cluster: "rome", Key: rome.Key, Market: ledger,
		Log: log, Received: func(string, api.PeeringRole) { came++ }})
	say := func(session string) string {
		return milan.Sign(api.DocumentHandshake, api.Handshake{
			Protocol: api.Protocol, From: "milan", FromKey: milan.Key.Public().Fingerprint().String(), To: "rome", ToKey: rome.Key.Public().Fingerprint().String(),
			Consumer: "rome", Session: session, Expires: transporttest.Seconds(time.Unix(time.Now().Unix()+60, 0)),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
		})
	}
	first := say("one")
	m.Receive(ctx, first)
	m.Receive(ctx, first)
	if m.Receive(ctx, say("two")); came != 2 || m.Newest("milan", api.RoleProvider).Session != "two" {
		t.Errorf("received %d times, last %+v", came, m.Newest("milan", api.RoleProvider))
	}
}

// counting counts the messages that are sent.
type counting struct {
	transport.Broker
	sent int
}

func (c *counting) SendHandshake(context.Context, string, string) error { c.sent++; return nil }

// In an open peering each side sends a new message at once. The consumer repeats it after a while, and the
// provider when it is asked, so that the two do not keep each other busy.
func TestOpenPeeringsAreQuiet(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(ctx, market.Pin{Cluster: "milan", Key: milan.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	broker := &counting{}
	m := NewMessenger(MessengerOptions{Clock: clock.RealClock{},
		Cluster: "rome", Key: rome.Key, Market: ledger, Relay: broker, Log: log})
	for _, c := range []struct {
		role    api.PeeringRole
		answers int
		open    bool
	}{{api.RoleProvider, 0, true}, {api.RoleConsumer, 1, true}, {api.RoleProvider,
		0, false}, {api.RoleConsumer, 1, false}} {
		role, answers, open := c.role, c.answers, c.open // one that is not open yet: its network comes first
		broker.sent = 0
		sends := func(p peering.Progress, want int, why string) {
			t.Helper()
			if err := m.Send(ctx, "milan", role, m.Newest("milan", role), p); err != nil || broker.sent != want {
				t.Errorf("%s: %s: sent %d times, want %d, %v", role, why, broker.sent, want, err)
			}
		}
		clear(m.received)
		clear(m.sent)
		p := peering.Progress{Open: open, Through: true, Repeat: true,
			Session: "s", Say: &api.HandshakeContent{Network: &api.HandshakeNetwork{PodCIDRs: []string{"10.0.0.0/16"}}}}
		sends(p, 1, "the first time")
		sends(p, 1, "again at once")
		m.received[api.PeeringName("milan", role)] = &api.Handshake{Session: "s",
			Expires: transporttest.Seconds(time.Now().Add(time.Minute))}
		sends(p, 1+answers, "after news")
		p.Say = &api.HandshakeContent{Network: &api.HandshakeNetwork{PodCIDRs: []string{"10.0.0.0/16"},
			PublicKey: []byte("k")}}
		sends(p, 2+answers, "something new")
	}
}
