package enrollment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A cluster joins once. It renews its certificate with a new key and uses it from the next call on,
// also after a start with the spent token.
func TestRenewal(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Cluster: "rome", Token: token.Token, BrokerURL: f.URL, Store: store.InDir(t.TempDir()), Log: log}
	m, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	if _, err := m.Client().Reservations(ctx); err != nil {
		t.Fatal(err)
	}
	first, err := m.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.renewOnce(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := m.Certificate()
	if err != nil || second.SerialNumber.Cmp(first.SerialNumber) == 0 ||
		bytes.Equal(second.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
		t.Errorf("renewed to the same certificate or key, %v", err)
	}
	if _, err := m.Client().Reservations(ctx); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
	again, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.CloseIdleConnections()
	if kept, err := again.Certificate(); err != nil || !bytes.Equal(kept.Raw, second.Raw) {
		t.Errorf("it comes back with another certificate, %v", err)
	}
	if again.key.Public() != m.key.Public() {
		t.Error("it comes back with another cluster key")
	}

	// A member that was revoked gets no new one.
	if _, err := f.Operator.SetMember(ctx, "rome", "revoke"); err != nil {
		t.Fatal(err)
	}
	if err := again.renewOnce(ctx); err == nil {
		t.Error("a revoked member renews its certificate")
	}
}

// A cluster that was removed joins again as docs/lend.md says: it deletes its certificate and that
// certificate's key. It keeps its own key.
func TestJoinAgain(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, kept := t.Context(), store.InDir(t.TempDir())
	join := func() (*Membership, error) {
		token, err := f.Operator.CreateToken(ctx, "rome", 0)
		if err != nil {
			t.Fatal(err)
		}
		return New(ctx, Options{Cluster: "rome", Token: token.Token, BrokerURL: f.URL, Store: kept,
			Log: slog.New(slog.DiscardHandler)})
	}
	first, err := join()
	if err != nil {
		t.Fatal(err)
	}
	first.CloseIdleConnections()
	if _, err := f.Operator.SetMember(ctx, "rome", "remove"); err != nil {
		t.Fatal(err)
	}
	id, err := kept.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id.CertPEM, id.TLSKeyPEM = nil, nil
	if err := kept.Save(ctx, &id); err != nil {
		t.Fatal(err)
	}
	again, err := join()
	if err != nil {
		t.Fatal(err)
	}
	defer again.CloseIdleConnections()
	if _, err := again.Client().Reservations(ctx); err != nil {
		t.Errorf("it joined again, and its calls fail: %v", err)
	}
	if again.Key().Public() != first.Key().Public() {
		t.Error("it joined again with another cluster key")
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
	m, err := New(ctx, Options{Cluster: "rome", Token: token.Token,
		BrokerURL: f.URL, Store: store.InDir(t.TempDir()), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	renewing := make(chan error, 1)
	go func() { renewing <- m.Run(ctx) }()
	if _, err := f.Operator.SetMember(ctx, "rome", "end-certificates"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Client().Reservations(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("with the ended certificate: %v", err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err = m.Client().Reservations(ctx); err == nil {
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

// An agent that has rotated its key since it got its certificate renews at once: that ends what the
// former key got. It works with the certificate that it got although it could not store it.
func TestARotatedKeyRenewsAtOnce(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := &fragile{Store: store.InDir(t.TempDir())}
	o := Options{Cluster: "rome", Token: token.Token, BrokerURL: f.URL, Store: kept, Log: slog.New(slog.DiscardHandler)}
	first, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.CloseIdleConnections()
	next := transporttest.NewParty(t, "rome").Key
	word, err := trust.Rotate(first.key, next.Public(), "rome", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	m.key, m.rotations = next, []string{word}
	kept.before = errors.New("the API server is away")
	renewing := make(chan error, 1)
	go func() { renewing <- m.Run(ctx) }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if known := f.Exchange.View().Listing("rome").Member; known.Key == next.Public().String() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it did not renew")
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err = m.Client().Reservations(ctx); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with the certificate that it got: %v", err)
		}
	}
	if _, err := first.Client().Reservations(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("with the former certificate: %v", err)
	}
	cancel()
	if err := <-renewing; err != nil {
		t.Error(err)
	}
}

// An agent whose renewal fails after a rotation tries again soon. Until it succeeds, the former key's certificate
// is good.
func TestARotatedKeyRenewsAfterAFailure(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	now := testclock.NewFakeClock(time.Now())
	m, err := New(ctx, Options{Cluster: "rome", Token: token.Token, BrokerURL: f.URL,
		Store: store.InDir(t.TempDir()), Clock: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	next := transporttest.NewParty(t, "rome").Key
	word, err := trust.Rotate(m.key, next.Public(), "rome", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.key, m.rotations, m.url = next, []string{word}, "https://"+closing.Addr().String()
	renewing := make(chan error, 1)
	go func() { renewing <- m.Run(ctx) }()
	step := func(by time.Duration) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !now.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not wait")
			}
		}
		now.Step(by)
	}
	step(0) // it renews at once
	if c, err := closing.Accept(); err != nil || c.Close() != nil || closing.Close() != nil {
		t.Fatal(err)
	}
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	m.url = f.URL
	step(2 * market.RenewEvery)
	step(0)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if known := f.Exchange.View().Listing("rome").Member; known.Key == next.Public().String() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it did not renew")
		}
	}
	cancel()
	if err := <-renewing; err != nil {
		t.Error(err)
	}
}
