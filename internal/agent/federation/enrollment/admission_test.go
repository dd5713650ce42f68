package enrollment

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// waiting is a cluster that has not joined, and its Secret with the token.
type waiting struct {
	t      *testing.T
	kube   kubernetes.Interface
	kept   store.Store
	member *Membership
	ended  chan error
}

func newWaiting(t *testing.T) *waiting {
	t.Helper()
	k, err := kubernetes.NewForConfig(kubeapi.New(kubeapi.Options{}).Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{t: t, kube: k, kept: store.InDir(t.TempDir()), ended: make(chan error, 1)}
	w.member = w.open()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.ended <- w.member.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func (w *waiting) open() *Membership {
	w.t.Helper()
	m, err := New(w.t.Context(), Options{Cluster: "rome", Store: w.kept, Log: slog.New(slog.DiscardHandler),
		Secret: &TokenSecret{Secrets: w.kube.CoreV1().Secrets("bourse"), Namespace: "bourse",
			Name: "bourse-join", Clock: clock.RealClock{}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(m.CloseIdleConnections)
	return m
}

// put puts a token into the Secret.
func (w *waiting) put(token string) {
	w.t.Helper()
	secrets := w.kube.CoreV1().Secrets("bourse")
	secret, err := secrets.Get(w.t.Context(), "bourse-join", metav1.GetOptions{})
	if err != nil {
		_, err = secrets.Create(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bourse-join"},
			Data: map[string][]byte{"token": []byte(token)}}, metav1.CreateOptions{})
	} else {
		secret.Data = map[string][]byte{"token": []byte(token + "\n")}
		_, err = secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits until the cluster waits for a reason, with an error that has a text.
func (w *waiting) await(reason, text string) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		a := w.member.Admission()
		if a.Reason == reason && strings.Contains(a.Err.Error(), text) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("it is %+v, want %s with %q", a, reason, text)
		}
	}
}

func (w *waiting) token(f *servertest.Federation, cluster string) string {
	w.t.Helper()
	token, err := f.Operator.CreateToken(w.t.Context(), cluster, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return token.Token
}

// A cluster without a token works without its broker, and says so. Each token that its Secret gets is tried at once.
// The one that is accepted makes the agent start again, as a member with the same key. A later token changes nothing.
func TestATokenThatComesLate(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	w := newWaiting(t)
	w.await(api.ReasonWaitsForToken, "create secret generic bourse-join")
	_, err := w.member.Client().Reservations(t.Context())
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUnavailable || !strings.Contains(e.Remedy, "token") {
		t.Errorf("a call before it joined: %v", err)
	}
	if _, err := w.member.Certificate(); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("its certificate: %v", err)
	}
	w.put("bourse.half")
	w.await(api.ReasonJoinRefused, "copy the whole output")
	w.put(w.token(f, "milan"))
	w.await(api.ReasonJoinRefused, "for another cluster than rome")
	nobody, err := join.NewToken(rand.Reader, "https://127.0.0.1:1", identity.FingerprintOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	away := nobody.Text()
	w.put(away)
	w.await(api.ReasonBrokerUnreachable, "")
	w.put(w.token(f, "rome"))
	select {
	case err := <-w.ended:
		if !errors.Is(err, ErrJoined) {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it does not join: %+v", w.member.Admission())
	}
	m := w.open()
	if m.Admission() != (Admission{}) || m.Key().Public() != w.member.Key().Public() || m.URL() != f.URL {
		t.Errorf("as a member: %+v, key %s, at %s", m.Admission(), m.Key().Public(), m.URL())
	}
	if _, err := m.Client().Reservations(t.Context()); err != nil {
		t.Error(err)
	}
	if elsewhere, err := m.TokenElsewhere(t.Context()); err != nil || elsewhere != "" {
		t.Errorf("a spent token of its broker is for %q, %v", elsewhere, err)
	}
	w.put(away)
	if elsewhere, err := w.open().TokenElsewhere(t.Context()); err != nil || elsewhere == "" {
		t.Errorf("a token of another broker is for %q, %v", elsewhere, err)
	}
	if again := w.open(); again.URL() != f.URL {
		t.Errorf("it moved to %s", again.URL())
	}
}

// An agent that is stopped while it joins has not joined.
func TestStoppedWhileItJoins(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m, err := New(ctx, Options{Cluster: "rome", Store: store.InDir(t.TempDir()), Log: slog.New(slog.DiscardHandler)})
	if m != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("it has joined: %v, %v", m, err)
	}
}

// A token that the agent was started with comes before that of the Secret.
func TestATokenOfTheCommandLine(t *testing.T) {
	w := newWaiting(t)
	w.put("bourse.of-the-secret")
	if text, place, err := w.member.readToken(t.Context()); text != "bourse.of-the-secret" || err != nil {
		t.Errorf("it takes %q of %s, %v", text, place, err)
	}
	given := &Membership{Options: w.member.Options}
	given.Token = "bourse.of-the-flag\n"
	if text, place, err := given.readToken(t.Context()); text != "bourse.of-the-flag" || place != "--join" || err != nil {
		t.Errorf("it takes %q of %s, %v", text, place, err)
	}
}

// What changed in the stored identity while the cluster joined stays: a new key, and other brokers.
func TestJoiningKeepsWhatChangedMeanwhile(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	w := newWaiting(t)
	id, err := w.kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &Membership{Options: w.member.Options, key: w.member.key, rotated: make(chan struct{}, 1)}
	to, err := m.Rotate(t.Context(), m.key.Public().Fingerprint().String())
	if err == nil {
		err = m.StoreFor("north").Save(t.Context(), &store.Identity{BrokerURL: "https://north"})
	}
	if err != nil {
		t.Fatal(err)
	}
	token, err := join.ParseToken(w.token(f, "rome"))
	if err == nil {
		err = m.join(t.Context(), &id, token)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := w.kept.Load(t.Context())
	if err != nil || len(kept.CertPEM) == 0 || kept.BrokerURL != f.URL || kept.Brokers["north"].URL != "https://north" ||
		len(kept.Rotations) != 1 {
		t.Errorf("kept is %+v, %v", kept, err)
	}
	if key, err := clusterkey.ParsePEM(kept.ClusterKeyPEM); err != nil || key.Public().Fingerprint().String() != to {
		t.Errorf("its key is not %s: %v", to, err)
	}
}
