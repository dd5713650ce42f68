package enrollment

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
)

// An identity stays in the cluster where it was made: a copy in another cluster, as from a backup, connects to nobody
// and says why. Once its admin takes the record away it starts again. An identity of before there was a record gets one.
func TestClonedIdentity(t *testing.T) {
	kept := store.InDir(t.TempDir())
	start := func(home string) *Membership {
		t.Helper()
		m, err := New(t.Context(), Options{Cluster: "rome", NoBroker: true, Store: kept, Home: home,
			Log: slog.New(slog.DiscardHandler), Clock: &hurrying{enough: func() {}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
	recorded := func(want string) {
		t.Helper()
		if id, err := kept.Load(t.Context()); err != nil || id.Home != want {
			t.Errorf("recorded is %q, want %q, %v", id.Home, want, err)
		}
	}
	for _, home := range []string{"", "a", "a"} {
		if start(home).IsCloned() {
			t.Errorf("in %q it is a clone", home)
		}
		recorded(home)
	}
	clone := start("b")
	err := clone.Admission().Err
	if e, ok := errors.AsType[*api.Error](err); !clone.IsCloned() || !ok || !strings.Contains(e.Remedy, "/data/kube-system-uid") {
		t.Errorf("in another cluster: %+v", clone.Admission())
	}
	if _, err := clone.Client().Reservations(t.Context()); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a clone's call: %v", err)
	}
	recorded("a")
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := clone.Run(ctx); err != nil {
		t.Errorf("a clone goes on: %v", err)
	}
	id, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id.Home = ""
	if err := kept.Save(t.Context(), &id); err != nil {
		t.Fatal(err)
	}
	if err := clone.Run(t.Context()); !errors.Is(err, ErrJoined) {
		t.Errorf("after a deliberate move: %v", err)
	}
	if start("b").IsCloned() {
		t.Error("it is a clone after a deliberate move")
	}
	recorded("b")

	kept = store.InDir(t.TempDir())
	start("new")
	recorded("new")
}
