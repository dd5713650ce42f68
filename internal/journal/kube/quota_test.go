package kube

import (
	"context"
	"math/rand/v2"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/test/raced"
)

// A quota lets no further object be made once the snapshot is in parts. The Ledger goes on, however long.
func TestAQuotaOnceItIsInParts(t *testing.T) {
	raced.Skip(t)
	cluster, quota := newCluster(), false
	j := agent(t, cluster, interceptor.Funcs{Create: func(ctx context.Context,
		c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if quota {
			return forbidden
		}
		return c.Create(ctx, o, opts...)
	}})
	random := rand.NewChaCha8([32]byte{})
	noise := func(n int) []byte {
		data := make([]byte, n)
		random.Read(data)
		return data
	}
	head, state := load(t, j).Head, noise(1<<20)
	step := func(i int) {
		t.Helper()
		var err error
		if head, err = j.Append(t.Context(), head, [][]byte{noise(40 << 10)}); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		if i%8 == 7 {
			if err := j.Snapshot(t.Context(), head, journal.State(state)); err != nil {
				t.Fatalf("snapshot after %d appends: %v", i, err)
			}
		}
	}
	for i := range 8 {
		step(i)
	}
	quota = true
	for i := range 32 {
		step(i)
	}
	if again := load(t, agent(t, cluster, interceptor.Funcs{})); again.Head != head {
		t.Errorf("it is at %v, want %v", again.Head, head)
	}
}

// A quota that lets only some parts be made keeps the snapshot in one object, where it can stay.
func TestAQuotaBeforeItIsInParts(t *testing.T) {
	raced.Skip(t)
	made := 0
	j := agent(t, newCluster(), interceptor.Funcs{Create: func(ctx context.Context,
		c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if made++; made > 8 {
			return forbidden
		}
		return c.Create(ctx, o, opts...)
	}})
	state := make([]byte, 200<<10)
	rand.NewChaCha8([32]byte{}).Read(state)
	head := load(t, j).Head
	for i := range 40 {
		var err error
		if head, err = j.Append(t.Context(), head, [][]byte{state[i : i+20<<10]}); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		if i%8 == 7 {
			if err := j.Snapshot(t.Context(), head, journal.State(state)); err != nil {
				t.Fatalf("snapshot after %d appends: %v", i, err)
			}
		}
	}
	if size := j.Size(); len(j.content.parts) > 0 || size.Space != oneObject {
		t.Errorf("%d parts, %+v", len(j.content.parts), size)
	}
}
