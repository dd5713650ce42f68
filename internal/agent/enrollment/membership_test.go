package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A cluster joins once, renews its certificate with a new key, shows the new one at its next call, and comes back with
// it, also when it is started with the spent token.
func TestRenewal(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Join: token.Token, BrokerURL: f.URL, Identity: store.InDir(t.TempDir())}
	m, err := enter(ctx, "rome", o, log)
	if err != nil {
		t.Fatal(err)
	}
	defer m.http.CloseIdleConnections()
	if _, err := m.broker.Reservations(ctx); err != nil {
		t.Fatal(err)
	}
	first, err := m.tls.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.renewOnce(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := m.tls.Certificate()
	if err != nil || second.SerialNumber.Cmp(first.SerialNumber) == 0 || bytes.Equal(second.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
		t.Errorf("renewed to the same certificate or key, %v", err)
	}
	if _, err := m.broker.Reservations(ctx); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
	again, err := enter(ctx, "rome", o, log)
	if err != nil {
		t.Fatal(err)
	}
	defer again.http.CloseIdleConnections()
	if kept, err := again.tls.Certificate(); err != nil || !bytes.Equal(kept.Raw, second.Raw) {
		t.Errorf("it comes back with another certificate, %v", err)
	}
	if again.key.Public() != m.key.Public() {
		t.Error("it comes back with another cluster key")
	}

	// A member that was revoked gets no new one; who never joined is told how.
	if _, err := f.Operator.SetMember(ctx, "rome", "revoke"); err != nil {
		t.Fatal(err)
	}
	if err := again.renewOnce(ctx); err == nil {
		t.Error("a revoked member renews its certificate")
	}
	if _, err := enter(ctx, "oslo", Options{Identity: store.InDir(t.TempDir())}, log); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

// An agent whose certificate the operator ended gets another one by itself, by its cluster key.
func TestACertificateThatTheOperatorEnded(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := enter(ctx, "rome", Options{Join: token.Token, BrokerURL: f.URL, Identity: store.InDir(t.TempDir())}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.http.CloseIdleConnections()
	renewing := make(chan error, 1)
	go func() { renewing <- m.renew(ctx, Options{}) }()
	if _, err := f.Operator.SetMember(ctx, "rome", "end-certificates"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.broker.Reservations(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("with the ended certificate: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err = m.broker.Reservations(ctx); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the agent did not renew: %v", err)
		}
	}
	cancel()
	if err := <-renewing; err != nil {
		t.Error(err)
	}
}

// An agent that has rotated its key since it got its certificate renews at once: that ends what the former key got. It works with
// the certificate that it got although it could not store it.
func TestARotatedKeyRenewsAtOnce(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := &fragile{Store: store.InDir(t.TempDir())}
	o := Options{Join: token.Token, BrokerURL: f.URL, Identity: kept}
	first, err := enter(ctx, "rome", o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer first.http.CloseIdleConnections()
	next := transporttest.NewParty(t, "rome").Key
	word, err := trust.Rotate(first.key, next.Public(), "rome", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	m, err := enter(ctx, "rome", o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.http.CloseIdleConnections()
	m.key, m.rotations = next, []string{word}
	kept.before = errors.New("the API server is away")
	renewing := make(chan error, 1)
	go func() { renewing <- m.renew(ctx, Options{}) }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if known := f.Exchange.View().Listing("rome").Member; known.Key == next.Public().String() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it did not renew")
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err = m.broker.Reservations(ctx); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with the certificate that it got: %v", err)
		}
	}
	if _, err := first.broker.Reservations(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("with the former certificate: %v", err)
	}
	cancel()
	if err := <-renewing; err != nil {
		t.Error(err)
	}
}
