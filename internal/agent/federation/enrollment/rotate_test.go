package enrollment

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// fragile is a store whose Save fails: before it has stored anything, or after.
type fragile struct {
	store.Store
	before, after error
}

func (f *fragile) Save(ctx context.Context, id *store.Identity) error {
	if f.before != nil {
		return f.before
	}
	return errors.Join(f.Store.Save(ctx, id), f.after)
}

// Where a rotation breaks off, the agent that starts next has a key that its peers believe, and the same call
// returns the same key.
func TestRotate(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(io.Discard, nil))
	token, err := f.Operator.CreateToken(ctx, "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := &fragile{Store: store.InDir(t.TempDir())}
	start := func() *Membership {
		t.Helper()
		m, err := New(ctx, Options{Cluster: "rome", Token: token.Token, BrokerURL: f.URL, Store: kept, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
	own := func(m *Membership) string { return m.key.Public().Fingerprint().String() }
	told := func(m *Membership) bool { return len(m.rotated) > 0 }

	m := start()
	first := own(m)
	if _, err := m.Rotate(ctx, "SHA256:another"); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("of a key that it never had: %v", err)
	}
	kept.before = errors.New("died before it was saved")
	if _, err := m.Rotate(ctx, first); err == nil || told(m) || own(start()) != first {
		t.Errorf("it goes on with a key that is not kept, %v", err)
	}
	kept.before, kept.after = nil, errors.New("died before it heard that it was saved")
	if _, err := m.Rotate(ctx, first); err == nil || told(m) {
		t.Errorf("it heard of it: %v", err)
	}
	kept.after = nil
	second := own(start())
	if second == first {
		t.Fatal("what was saved is not what it starts with")
	}
	for _, again := range []*Membership{m, m, start()} { // the one that lives on, and the next
		if to, err := again.Rotate(ctx, first); err != nil || to != second {
			t.Errorf("repeated: %s instead of %s, %v", to, second, err)
		}
		if told(again) != (own(again) == first) {
			t.Error("who has the old key starts again, and nobody else")
		}
	}
	if err := m.Run(ctx); !errors.Is(err, ErrRotated) {
		t.Errorf("it goes on: %v", err)
	}
	if err := m.renewOnce(ctx); err != nil || own(start()) != second {
		t.Errorf("its renewal brings back the old key, %v", err)
	}
	for range api.MaxRotations + 1 {
		m = start()
		if _, err := m.Rotate(ctx, own(m)); err != nil {
			t.Fatal(err)
		}
	}
	m = start()
	if former := m.Former(); len(former) != api.MaxRotations || len(m.rotations) != api.MaxRotations {
		t.Errorf("it shows %d of %d rotations", len(former), len(m.rotations))
	}
	kept.before = store.ErrConflict
	if _, err := m.Rotate(ctx, own(m)); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("changed by another agent: %v", err)
	}
}
