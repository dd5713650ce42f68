package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// letter is what milan, the provider, says to rome; change makes it wrong.
func (w *fixture) message(change func(*api.Handshake)) string {
	h := api.Handshake{
		Protocol: api.Protocol, From: "milan", FromKey: w.milan.Key.Public().Fingerprint().String(),
		To: "rome", ToKey: w.rome.Key.Public().Fingerprint().String(), Consumer: "rome", Session: "s",
		Expires:          transporttest.Seconds(time.Now().Add(time.Minute)),
		HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}},
	}
	change(&h)
	return w.milan.Sign(api.DocumentHandshake, h)
}

var errHeard = errors.New("heard")

// hears returns the first handshake message that a member's watch carries.
func hears(t *testing.T, m *servertest.Member, during func()) (document string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := m.Watch(ctx, "", func(e api.WatchEvent) error {
		switch e.Type {
		case api.WatchBookmark:
			if during != nil {
				during()
				during = nil
			}
		case api.WatchHandshake:
			document = e.Document
			return errHeard
		}
		return nil
	})
	if !errors.Is(err, errHeard) {
		t.Fatalf("nothing was heard: %v", err)
	}
	return document
}

// What one cluster says, the other hears: while it watches, and when it comes later. Of two
// messages the newer counts.
func TestHandshakesArePassedOn(t *testing.T) {
	w := newFixture(t)
	first := w.message(func(*api.Handshake) {})
	say := func(document string) {
		if err := w.milan.SendHandshake(t.Context(), "rome", document); err != nil {
			t.Error(err)
		}
	}
	if got := hears(t, w.rome, func() { say(first) }); got != first {
		t.Errorf("while it watched rome heard %.40s", got)
	}
	second := w.message(func(h *api.Handshake) { h.Session = "t" })
	say(second)
	say(second)
	if got := hears(t, w.rome, nil); got != second {
		t.Errorf("when it came back rome heard %.40s", got)
	}
}

// Nobody writes for others, to strangers, or for ever.
func TestHostileHandshakes(t *testing.T) {
	w := newFixture(t)
	say := func(name, to, document string, want api.Code, field string) call {
		return call{name: name, by: w.milan.HTTP, method: "PUT", path: "/clusters/" + to + "/handshake",
			body: document, want: want, field: field}
	}
	w.refused(t, []call{
		say("not a document", "rome", document("x"), api.CodeBadSignature, "document"),
		say("of another kind", "rome", document(w.milan.Sign(api.DocumentEnd, api.Handshake{})),
			api.CodeBadSignature, "document"),
		say("signed by another", "rome", document(w.oslo.Sign(api.DocumentHandshake, api.Handshake{From: "milan"})),
			api.CodeBadSignature, "document"),
		say("from another", "rome", document(w.message(func(h *api.Handshake) { h.From = "oslo" })),
			api.CodeInvalid, "document"),
		say("to another", "oslo", document(w.message(func(*api.Handshake) {})), api.CodeInvalid, "document"),
		say("about others", "rome", document(w.message(func(h *api.Handshake) { h.Consumer = "oslo" })),
			api.CodeInvalid, "document"),
		say("expired", "rome",
			document(w.message(func(h *api.Handshake) { h.Expires = transporttest.Seconds(time.Now().Add(-time.Minute)) })), api.CodeInvalid, "document.expires"),
		say("for ever", "rome",
			document(w.message(func(h *api.Handshake) { h.Expires = transporttest.Seconds(time.Now().Add(time.Hour)) })), api.CodeInvalid, "document.expires"),
		say("too large", "rome", document(w.message(func(h *api.Handshake) { h.Session = strings.Repeat("s", 20<<10) })),
			api.CodeTooLarge, "document"),
		say("to a stranger", "oslo", document(w.message(func(h *api.Handshake) { h.To = "oslo"; h.Consumer = "oslo" })),
			api.CodeNotFound, ""),
		say("in the other direction", "rome", document(w.message(func(h *api.Handshake) { h.Consumer = "milan" })),
			api.CodeNotFound, ""),
	})
}
