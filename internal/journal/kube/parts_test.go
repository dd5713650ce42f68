package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/test/raced"
)

// tight are limits with few parts, which a few events fill.
var tight = limits{parts: 12, part: 400, inlineTail: 120, inlineSnapshot: 60, mergeSize: 150}

// writer is somebody who writes what cannot be packed, and knows what was acknowledged.
type writer struct {
	*Journal
	name string
	head journal.Head
	log  []string // what the journal held when it was loaded, and what was acknowledged since
	n    int
}

// flat is the log that a journal holds: here a snapshot is the log before it.
func flat(c journaltest.Content) (log []string) {
	if c.State != "" {
		log = strings.Split(c.State, ",")
	}
	for _, r := range c.Records {
		for _, e := range r.Events {
			log = append(log, string(e))
		}
	}
	return log
}

func newWriter(name string, c client.WithWatch, funcs interceptor.Funcs, t testing.TB) *writer {
	w := &writer{Journal: agent(t, c, funcs), name: name}
	w.limits = tight
	return w
}

func (w *writer) load(ctx context.Context) error {
	content, err := journaltest.Read(ctx, w.Journal)
	if err == nil {
		w.head, w.log = content.Head, flat(content)
	}
	return err
}

// lives is a life of a journal: batches small and large, and snapshots of the head and of an earlier one.
func (w *writer) lives(ctx context.Context, steps int) error {
	before, logged := w.head, w.log
	for i := range steps {
		if i%5 == 4 {
			head, state := w.head, w.log
			if i%2 == 0 {
				head, state = before, logged
			}
			if err := w.Snapshot(ctx, head, journal.State([]byte(strings.Join(state, ",")))); err != nil && !errors.Is(err,
				journal.ErrFull) {
				return err
			}
		}
		before, logged = w.head, w.log
		w.n++
		events := []string{fmt.Sprintf("%s%d:%x", w.name, w.n, digest([]byte(fmt.Sprint(w.name, w.n))))[:10+17*(i%4)]}
		if i%7 == 3 {
			events = append(events, events[0]+"+", events[0]+"++")
		}
		var batch [][]byte
		for _, e := range events {
			batch = append(batch, []byte(e))
		}
		head, err := w.Append(ctx, w.head, batch)
		if err != nil {
			return err
		}
		w.head, w.log = head, append(slices.Clone(w.log), events...)
	}
	return nil
}

// append appends an event of so many bytes.
func (w *writer) append(ctx context.Context, size int) error {
	w.n++
	noise := make([]byte, size)
	rand.NewChaCha8(digest([]byte(fmt.Sprint(w.name, w.n)))).Read(noise)
	event := fmt.Sprintf("%s%d:%x", w.name, w.n, noise)[:size]
	head, err := w.Append(ctx, w.head, [][]byte{[]byte(event)})
	if err == nil {
		w.head, w.log = head, append(slices.Clone(w.log), event)
	}
	return err
}

// calls has something done before or after each write at the API server.
func calls(before, after func() error) interceptor.Funcs {
	around := func(do func() error) error {
		if err := before(); err != nil {
			return err
		}
		return errors.Join(do(), after())
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return around(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return around(func() error { return c.Update(ctx, o, opts...) })
		},
	}
}

func none() error { return nil }

// An agent that is killed before or after any of its writes, to the Ledger or to a part, has lost
// nothing that was acknowledged.
func TestKilledBetweenTwoObjects(t *testing.T) {
	raced.Skip(t)
	for _, after := range []bool{false, true} {
		kills, writes := 0, 0
		for kill := 1; kills == kill-1; kill++ {
			cluster := newCluster()
			ctx, die := context.WithCancel(t.Context())
			writes = 0
			end := func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if writes++; writes == kill {
					kills++
					die()
					return context.Canceled
				}
				return nil
			}
			funcs := calls(end, none)
			if after {
				funcs = calls(none, end)
			}
			w := newWriter("a", cluster, funcs, t)
			err := w.load(ctx)
			if err == nil {
				err = w.lives(ctx, 20)
			}
			die()
			if kills == kill && err == nil && writes > kill {
				t.Fatalf("killed at write %d, and went on", kill)
			}
			again := newWriter("b", cluster, interceptor.Funcs{}, t)
			if err := again.load(t.Context()); err != nil {
				t.Fatalf("killed at write %d: %v", kill, err)
			}
			if len(again.log) < len(w.log) || !slices.Equal(again.log[:len(w.log)], w.log) {
				t.Fatalf("killed at write %d: of\n%v\nthere is\n%v", kill, w.log, again.log)
			}
			if err := again.lives(t.Context(), 6); err != nil {
				t.Fatalf("killed at write %d, after it: %v", kill, err)
			}
			want := again.log
			if err := again.load(t.Context()); err != nil || !slices.Equal(again.log, want) {
				t.Fatalf("killed at write %d, after it, %v: of\n%v\nthere is\n%v", kill, err, want, again.log)
			}
		}
		if kills < 25 {
			t.Errorf("only %d writes", kills)
		}
	}
}

// Another agent takes over before or after any write of one that is still alive and does not know:
// what either was acknowledged is there, in order, and the first is refused from then on.
func TestTakenOverBetweenTwoObjects(t *testing.T) {
	raced.Skip(t)
	for _, after := range []bool{false, true} {
		for takeover := 2; ; takeover++ { // the first write is of who makes the Ledger
			cluster := newCluster()
			second := newWriter("b", cluster, interceptor.Funcs{}, t)
			writes := 0
			take := func() error {
				if writes++; writes != takeover {
					return nil
				}
				if err := second.load(t.Context()); err != nil {
					return err
				}
				return second.lives(t.Context(), 3+takeover%12)
			}
			funcs := calls(take, none)
			if after {
				funcs = calls(none, take)
			}
			first := newWriter("a", cluster, funcs, t)
			err := first.load(t.Context())
			if err == nil {
				err = first.lives(t.Context(), 16)
			}
			if writes < takeover {
				if err != nil || takeover < 25 {
					t.Errorf("%d writes: %v", writes, err)
				}
				break
			}
			if err == nil { // its last write was before it was taken over
				err = first.lives(t.Context(), 1)
			}
			if !errors.Is(err, journal.ErrConflict) {
				t.Fatalf("taken over at write %d: %v", takeover, err)
			}
			third := newWriter("c", cluster, interceptor.Funcs{}, t)
			if err := third.load(t.Context()); err != nil {
				t.Fatalf("taken over at write %d: %v", takeover, err)
			}
			if !slices.Equal(third.log, second.log) {
				t.Fatalf("taken over at write %d: of\n%v\nthere is\n%v", takeover, second.log, third.log)
			}
			if n := len(first.log); n > 0 && (len(second.log) < n || !slices.Equal(second.log[:n], first.log)) {
				t.Fatalf("taken over at write %d: the first was acknowledged\n%v\nthere is\n%v", takeover, first.log, second.log)
			}
		}
	}
}

// A part that is missing, or holds something else, is refused, and nothing is changed.
func TestPartsAreVerified(t *testing.T) {
	cluster := newCluster()
	w := newWriter("a", cluster, interceptor.Funcs{}, t)
	if err := errors.Join(w.load(t.Context()), w.lives(t.Context(), 38)); err != nil {
		t.Fatal(err)
	}
	if len(w.content.parts) == 0 || len(w.filed) == 0 {
		t.Fatalf("%d parts of a snapshot, %d of batches", len(w.content.parts), len(w.filed))
	}
	for _, p := range append(slices.Clone(w.content.parts), w.filed...) {
		object := newLedger(w.partKey(p.Part))
		if err := cluster.Get(t.Context(), w.partKey(p.Part), object); err != nil {
			t.Fatal(err)
		}
		refused := func(what string) {
			t.Helper()
			var r *journal.RefusedError
			if _, err := journaltest.Read(t.Context(), newWriter("b", cluster, interceptor.Funcs{}, t)); !errors.As(err, &r) ||
				!strings.Contains(r.Found, fmt.Sprint("part ", p.Part)) {
				t.Errorf("%s: %v, want it refused for part %d", what, err, p.Part)
			}
		}
		changed := object.DeepCopy()
		if err := errors.Join(encodePart(changed, []byte("something else")),
			cluster.Update(t.Context(), changed)); err != nil {
			t.Fatal(err)
		}
		refused("changed")
		if err := cluster.Delete(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		refused("missing")
		object.SetResourceVersion("")
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.load(t.Context()); err != nil {
		t.Error(err)
	}
}

// With the CRD of an older version, which drops what parts hold, or its rights, a Ledger goes on in
// one object, and says how little space it has there.
func TestOneObjectWhereNoPartsCanBeWritten(t *testing.T) {
	for name, right := range map[string]bool{"no field": true, "no right": false} {
		t.Run(name, func(t *testing.T) { oneObjectOnly(t, right) })
	}
}

func oneObjectOnly(t *testing.T, right bool) {
	cluster := newCluster()
	drop := func(o client.Object) {
		unstructured.RemoveNestedField(o.(*unstructured.Unstructured).Object, "spec", "data")
	}
	w := newWriter("a", cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey,
			o client.Object, opts ...client.GetOption) error {
			if !right && k != key {
				return forbidden
			}
			return c.Get(ctx, k, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			drop(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			drop(o)
			return c.Update(ctx, o, opts...)
		},
	}, t)
	if err := errors.Join(w.load(t.Context()), w.lives(t.Context(), 4)); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := w.lives(t.Context(), 1); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	if size := w.Size(); size.Space != oneObject {
		t.Errorf("it has %d bytes of space, want %d", size.Space, oneObject)
	}
	log := slices.Clone(w.log)
	if err := w.Snapshot(t.Context(), w.head, journal.State([]byte(strings.Join(w.log, ",")))); err != nil {
		t.Error(err)
	}
	if err := w.load(t.Context()); err != nil || len(w.filed)+len(w.content.parts) > 0 || !slices.Equal(w.log, log) {
		t.Errorf("%v, %d parts", err, len(w.filed)+len(w.content.parts))
	}
}

// While a snapshot is written to its parts, batches are filed: neither takes a part of the other.
func TestFiledWhileASnapshotIsWritten(t *testing.T) {
	cluster := newCluster()
	var during func() error
	first := newWriter("a", cluster, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if do := during; do != nil && o.GetName() != key.Name {
				during = nil
				if err := c.Update(ctx, o, opts...); err != nil {
					return err
				}
				return do()
			}
			return c.Update(ctx, o, opts...)
		},
	}, t)
	if err := errors.Join(first.load(t.Context()), first.lives(t.Context(), 12)); err != nil {
		t.Fatal(err)
	}
	done := 0
	for range 24 {
		head, log := first.head, slices.Clone(first.log)
		during = func() error {
			first.mu.Lock()
			first.next = slices.Min(slices.Collect(maps.Keys(first.taken)))
			first.mu.Unlock()
			for range 2 {
				if err := first.append(t.Context(), 130); err != nil {
					return err
				}
			}
			done++
			return nil
		}
		noise := []byte(strings.Join(log, ","))
		if err := first.Snapshot(t.Context(), head, journal.State(noise)); err != nil && !errors.Is(err, journal.ErrFull) {
			t.Fatal(err)
		}
		again := newWriter("b", cluster, interceptor.Funcs{}, t)
		if err := again.load(t.Context()); err != nil || !slices.Equal(again.log, first.log) {
			t.Fatalf("%v, of\n%v\nthere is\n%v", err, first.log, again.log)
		}
	}
	if done < 5 {
		t.Errorf("only in %d snapshots", done)
	}
}
