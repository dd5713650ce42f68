package server_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Both parties get new keys while they trade: what is bound lives on and ends by the new keys, what
// was held is signed again, and the old keys are no longer valid.
func TestRotation(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	reserve := func(key string) string {
		t.Helper()
		r, err := rome.Reserve(ctx, key, transporttest.Request("2"))
		if err == nil {
			_, err = rome.Confirm(ctx, r.ID, rome.Assign(r))
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	accept := func(id string) {
		t.Helper()
		r, err := milan.Reservation(ctx, id)
		if err == nil {
			r, err = milan.Accept(ctx, id, milan.Agree(r))
		}
		if err != nil || r.Payload.State != api.Reserved {
			t.Fatalf("%+v, %v", r.Payload, err)
		}
	}
	bound, held := reserve("bound"), reserve("held")
	accept(bound)

	for _, m := range []*servertest.Member{milan, rome} {
		before := m.Card(api.Properties{Region: "eu"})
		old := m.Rotate()
		r, err := rome.Reservation(ctx, held)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Release(ctx, held, m.End(r, api.ReasonReleased)); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: an end by a key that the broker has not seen: %v", m.ID, err)
		}
		thief := *old
		thief.Rotate()
		stranger := transporttest.NewParty(t, m.ID)
		stranger.Rotate()
		if err := m.PutCard(ctx, m.ID, stranger.Card(api.Properties{})); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: a stranger's successor: %v", m.ID, err)
		}
		m.ShowCard(api.Properties{Region: "eu"})
		for what, card := range map[string]string{"an old card": before,
			"a new one by the old key": old.Card(api.Properties{}), "another successor": thief.Card(api.Properties{})} {
			if err := m.PutCard(ctx, m.ID, card); api.CodeOf(err) != api.CodeBadSignature {
				t.Errorf("%s: %s: %v", m.ID, what, err)
			}
		}
		if _, err := m.Release(ctx, bound, old.End(r, api.ReasonReleased)); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: an end by the old key: %v", m.ID, err)
		}
		members, err := f.Operator.Members(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, known := range members {
			if known.ID == m.ID && (known.Payload.Fingerprint != m.Key.Public().Fingerprint().String() ||
				known.Payload.State != api.MemberActive) {
				t.Errorf("the operator sees %+v", known.Payload)
			}
		}
		if r, err = rome.Reservation(ctx, held); err != nil || r.Payload.State != api.Held ||
			r.Payload.Assignment != "" || r.Payload.Provider != "milan" {
			t.Fatalf("what is held is %+v, %v", r.Payload, err)
		}
		if _, key, err := trust.Open(r.Payload.ProviderCard); err != nil || key != milan.Key.Public() {
			t.Errorf("the provider is shown with the key %s, %v", key, err)
		}
		if _, err := rome.Confirm(ctx, held, rome.Assign(r)); err != nil {
			t.Fatalf("%s: signed again: %v", m.ID, err)
		}
	}
	accept(held)
	for _, id := range []string{bound, held} {
		r, err := rome.Reservation(ctx, id)
		if err != nil || r.Payload.State != api.Reserved {
			t.Fatalf("%+v, %v", r.Payload, err)
		}
		if _, err = rome.Release(ctx, id, rome.End(r, api.ReasonReleased)); err != nil {
			t.Error(err)
		}
		if r, err = milan.Progress(ctx, id, api.Released); err != nil || r.Payload.State != api.Released {
			t.Errorf("%+v, %v", r.Payload, err)
		}
	}
}

// A renewed certificate brings a member's new key before its card does. Until then the other party cannot verify what the
// member signs, so the broker relays none of it, and the member tries again.
func TestNewKeyBeforeItsCard(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	var r transport.Reservation
	var err error
	for what, sign := range map[string]func() error{
		"an assignment": func() error { _, err := rome.Confirm(ctx, r.ID, rome.Assign(r)); return err },
		"an end":        func() error { _, err := rome.Release(ctx, r.ID, rome.End(r, api.ReasonReleased)); return err },
	} {
		rome.Rotate()
		if err := rome.Renew(); err != nil {
			t.Fatal(err)
		}
		if r, err = rome.Reserve(ctx, what, transporttest.Request("2")); err != nil {
			t.Fatal(err)
		}
		if err := sign(); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%s by a key that the card has not: %v", what, err)
		}
		rome.ShowCard(api.Properties{Region: "eu"})
		if r, err = rome.Reservation(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		if err := sign(); err != nil {
			t.Errorf("%s by the key of the card: %v", what, err)
		}
	}
}
