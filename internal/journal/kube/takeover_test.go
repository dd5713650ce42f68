package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/test/raced"
)

// One that takes over, and is killed after it has written parts and before it names them, has
// written none that the first may yet name.
func TestKilledAsItTakesOver(t *testing.T) {
	raced.Skip(t)
	noise := make([]byte, 1400)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for takeover := 2; ; takeover++ {
		for next := range tight.parts {
			cluster := newCluster()
			parts, writes := 0, 0
			die := func(o client.Object, write func() error) error {
				if o.GetName() != key.Name {
					if data, _ := decodePart(o.(*unstructured.Unstructured)); len(data) > 1 {
						parts++
					}
				} else if parts > 0 {
					return &journal.RefusedError{Found: "killed"}
				}
				return write()
			}
			second := newWriter("b", cluster, interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					return die(o, func() error { return c.Update(ctx, o, opts...) })
				},
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					return die(o, func() error { return c.Create(ctx, o, opts...) })
				},
			}, t)
			first := newWriter("a", cluster, calls(func() error {
				if writes++; writes != takeover {
					return nil
				}
				if err := second.load(t.Context()); err != nil {
					return err
				}
				second.next = next
				if err := second.Snapshot(t.Context(), second.head, journal.State(noise)); err == nil || parts < 4 {
					t.Errorf("%d parts, %v", parts, err)
				}
				return nil
			}, none), t)
			err := first.load(t.Context())
			if err == nil {
				err = first.lives(t.Context(), 16)
			}
			if writes < takeover {
				return
			}
			if !errors.Is(err, journal.ErrConflict) {
				t.Fatalf("taken over at write %d: %v", takeover, err)
			}
			third := newWriter("c", cluster, interceptor.Funcs{}, t)
			if err := third.load(t.Context()); err != nil {
				t.Fatalf("taken over at write %d: %v", takeover, err)
			}
			if !slices.Equal(third.log, first.log) {
				t.Fatalf("taken over at write %d: of\n%v\nthere is\n%v", takeover, first.log, third.log)
			}
		}
	}
}

// Another agent takes over after the first has read a part and before it writes it, having seen
// that the Ledger was its own. The first must not write over what the other has put there since.
func TestTakenOverBetweenReadAndWriteOfAPart(t *testing.T) {
	raced.Skip(t)
	hits := 0
	for read := 1; ; read++ {
		cluster, reads := newCluster(), 0
		second := newWriter("b", cluster, interceptor.Funcs{}, t)
		armed := false
		first := newWriter("a", cluster, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if o.GetName() != key.Name && armed {
					if reads++; reads == read {
						hits++
						if err := errors.Join(second.load(ctx), second.lives(ctx, 30)); err != nil {
							return err
						}
					}
				}
				return c.Update(ctx, o, opts...)
			},
		}, t)
		err := errors.Join(first.load(t.Context()), first.lives(t.Context(), 30))
		armed = true
		if err == nil {
			err = first.lives(t.Context(), 20)
		}
		if reads < read {
			break
		}
		if !errors.Is(err, journal.ErrConflict) {
			t.Fatalf("taken over at write %d of a part: %v", read, err)
		}
		third := newWriter("c", cluster, interceptor.Funcs{}, t)
		if err := third.load(t.Context()); err != nil || !slices.Equal(third.log, second.log) {
			t.Fatalf("taken over at write %d of a part: %v, of\n%v\nthere is\n%v", read, err, second.log, third.log)
		}
	}
	if hits < 8 {
		t.Errorf("only %d writes of parts", hits)
	}
}

// Another agent takes over between two appends of the first, and writes the parts that the first would use
// next. The first must never overwrite them.
func TestTakenOverBetweenTwoAppends(t *testing.T) {
	raced.Skip(t)
	for steps := range 24 {
		cluster := newCluster()
		first, second := newWriter("a", cluster, interceptor.Funcs{}, t), newWriter("b", cluster, interceptor.Funcs{}, t)
		if err := errors.Join(first.load(t.Context()), first.lives(t.Context(), 30+steps)); err != nil {
			t.Fatal(err)
		}
		if err := second.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		second.next = first.next // the same parts as the first would
		const large = 130        // so that it is filed
		if err := errors.Join(second.append(t.Context(), large), second.append(t.Context(), large)); err != nil {
			t.Fatal(err)
		}
		if err := first.append(t.Context(), large); !errors.Is(err, journal.ErrConflict) {
			t.Fatalf("taken over after %d steps: %v", steps, err)
		}
		third := newWriter("c", cluster, interceptor.Funcs{}, t)
		if err := third.load(t.Context()); err != nil || !slices.Equal(third.log, second.log) {
			t.Fatalf("taken over after %d steps: %v, of\n%v\nthere is\n%v", steps, err, second.log, third.log)
		}
	}
}
