package agent

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Whatever the broker passes on: only what a pinned key signed, for this cluster, now, is heard.
func TestLetters(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan, oslo, stranger := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo"), transporttest.NewParty(t, "milan")
	for _, p := range []*transporttest.Party{milan, oslo} {
		if _, err := ledger.Do(ctx, market.Pin{Cluster: p.ID, Key: p.Key.Public().String()}); err != nil {
			t.Fatal(err)
		}
	}
	came := 0
	l := &letters{cluster: "rome", key: rome.Key, market: ledger, log: log, heard: map[string]*api.Handshake{}, said: map[string]said{},
		came: func(string, api.PeeringRole) { came++ }}
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
		"for another key":               say(milan, func(h *api.Handshake) { h.ToKey = oslo.Key.Public().Fingerprint().String() }),
		"by another key":                say(milan, func(h *api.Handshake) { h.FromKey = h.ToKey }),
		"of others' peering":            say(milan, func(h *api.Handshake) { h.Consumer = "oslo" }),
		"expired":                       say(milan, func(h *api.Handshake) { h.Expires = transporttest.Seconds(time.Now().Add(-time.Minute)) }),
		"of another kind":               milan.Sign(api.DocumentEnd, api.Handshake{From: "milan", To: "rome"}),
	} {
		l.receive(ctx, document)
		if came > 0 || l.last("milan", api.RoleProvider) != nil {
			t.Fatalf("%s is heard", name)
		}
	}
	l.receive(ctx, say(milan, same))
	if h := l.last("milan", api.RoleProvider); came != 1 || h == nil || h.Session != "s" || l.last("milan", api.RoleConsumer) != nil {
		t.Fatalf("heard %+v, %d times", h, came)
	}
	l.receive(ctx, say(milan, func(h *api.Handshake) { h.Consumer = "milan" }))
	if l.last("milan", api.RoleConsumer) == nil {
		t.Error("the other direction is not heard")
	}
	l.receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires = "old", transporttest.Seconds(time.Now().Add(10*time.Second))
	}))
	if h := l.last("milan", api.RoleProvider); h.Session != "s" {
		t.Error("an older message replaces a newer one")
	}
	l.receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires = "new", transporttest.Seconds(time.Now().Add(2*time.Minute))
	}))
	if h := l.last("milan", api.RoleProvider); h.Session != "new" {
		t.Error("a newer message is not heard")
	}
	until := l.last("milan", api.RoleProvider).Expires
	l.receive(ctx, say(milan, func(h *api.Handshake) {
		h.Session, h.Expires, h.HandshakeContent = "new", until, api.HandshakeContent{Identity: &api.HandshakeIdentity{Namespace: "n"}}
	}))
	if h := l.last("milan", api.RoleProvider); h.Identity == nil {
		t.Error("the next message of the same second is not heard")
	}
}

// What comes by two ways, or again, is heard once.
func TestLettersComeByEveryWay(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(ctx, market.Pin{Cluster: "milan", Key: milan.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	came := 0
	l := &letters{cluster: "rome", key: rome.Key, market: ledger, log: log, heard: map[string]*api.Handshake{}, came: func(string, api.PeeringRole) { came++ }}
	say := func(session string) string {
		return milan.Sign(api.DocumentHandshake, api.Handshake{
			Protocol: api.Protocol, From: "milan", FromKey: milan.Key.Public().Fingerprint().String(), To: "rome", ToKey: rome.Key.Public().Fingerprint().String(),
			Consumer: "rome", Session: session, Expires: transporttest.Seconds(time.Unix(time.Now().Unix()+60, 0)),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
		})
	}
	first := say("one")
	l.receive(ctx, first)
	l.receive(ctx, first)
	if l.receive(ctx, say("two")); came != 2 || l.last("milan", api.RoleProvider).Session != "two" {
		t.Errorf("heard %d times, last %+v", came, l.last("milan", api.RoleProvider))
	}
}

// counting counts what is said.
type counting struct {
	transport.Broker
	said int
}

func (c *counting) Say(context.Context, string, string) error { c.said++; return nil }

// Of an open peering each side says something new at once. The consumer says it again when it is time to, and the provider
// when it is asked: the two do not keep each other busy.
func TestOpenPeeringsAreQuiet(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(ctx, market.Pin{Cluster: "milan", Key: milan.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	broker := &counting{}
	l := &letters{cluster: "rome", key: rome.Key, market: ledger, broker: broker, log: log, heard: map[string]*api.Handshake{}, said: map[string]said{}}
	for _, c := range []struct {
		role    api.PeeringRole
		answers int
		open    bool
	}{{api.RoleProvider, 0, true}, {api.RoleConsumer, 1, true}, {api.RoleProvider, 0, false}, {api.RoleConsumer, 1, false}} {
		role, answers, open := c.role, c.answers, c.open // one that is not open yet: its network comes first
		broker.said = 0
		says := func(p peering.Progress, want int, why string) {
			t.Helper()
			if err := l.say(ctx, "milan", role, p); err != nil || broker.said != want {
				t.Errorf("%s: %s: said %d times, want %d, %v", role, why, broker.said, want, err)
			}
		}
		clear(l.heard)
		clear(l.said)
		p := peering.Progress{Open: open, Through: true, Repeat: true, Session: "s", Say: &api.HandshakeContent{Network: &api.HandshakeNetwork{PodCIDRs: []string{"10.0.0.0/16"}}}}
		says(p, 1, "the first time")
		says(p, 1, "again at once")
		l.heard[api.PeeringName("milan", role)] = &api.Handshake{Session: "s", Expires: transporttest.Seconds(time.Now().Add(time.Minute))}
		says(p, 1+answers, "after news")
		p.Say = &api.HandshakeContent{Network: &api.HandshakeNetwork{PodCIDRs: []string{"10.0.0.0/16"}, PublicKey: []byte("k")}}
		says(p, 2+answers, "something new")
	}
}
