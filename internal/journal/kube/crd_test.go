package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/test/raced"
)

// Somebody applies the CRD of a version before parts while the agent runs, as a roll-back does.
// Before any of its writes: nothing that was acknowledged is lost, and it is all there once the CRD
// of this version is applied again.
func TestAnOldCRDLosesNothing(t *testing.T) {
	raced.Skip(t)
	for rollback := 1; ; rollback++ {
		cluster := newCluster()
		old, pruned, writes, updates := false, false, 0, 0
		prune := func(o client.Object) (dropped bool) {
			if !old {
				return false
			}
			spec, _ := o.(*unstructured.Unstructured).Object["spec"].(map[string]any)
			dropped = spec["parts"] != nil || spec["filed"] != nil
			for _, f := range []string{"data", "parts", "filed"} {
				delete(spec, f)
			}
			return dropped
		}
		write := func(o client.Object) {
			writes++
			old = old || writes == rollback
			pruned = prune(o) || pruned
		}
		funcs := interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey,
				o client.Object, opts ...client.GetOption) error {
				err := c.Get(ctx, k, o, opts...)
				prune(o)
				return err
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				write(o)
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if updates++; updates%3 == 0 {
					return timeout // and nothing is done: it is tried again, on what was read
				}
				write(o)
				return c.Update(ctx, o, opts...)
			},
		}
		w := newWriter("a", cluster, funcs, t)
		err := w.load(t.Context())
		if err == nil {
			err = w.lives(t.Context(), 24)
		}
		if writes < rollback {
			if rollback < 25 || err != nil {
				t.Errorf("%d writes, %v", writes, err)
			}
			return
		}
		if pruned && err == nil {
			t.Fatalf("rolled back at write %d: it went on without the names of its parts", rollback)
		}
		if err != nil {
			var refused *journal.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(refused.Remedy, "apply the CRDs") {
				t.Fatalf("rolled back at write %d: %v, want the remedy", rollback, err)
			}
			if err := w.load(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Remedy, "apply the CRDs") {
				t.Fatalf("rolled back at write %d, loaded under the old CRD: %v, want the remedy", rollback, err)
			}
		}
		log := w.log
		old = false
		again := newWriter("b", cluster, interceptor.Funcs{}, t)
		if err := again.load(t.Context()); err != nil {
			t.Fatalf("rolled back at write %d, under the new CRD again: %v", rollback, err)
		}
		if len(again.log) < len(log) || !slices.Equal(again.log[:len(log)], log) {
			t.Fatalf("rolled back at write %d: of\n%v\nthere is\n%v", rollback, log, again.log)
		}
		if err := again.lives(t.Context(), 6); err != nil {
			t.Fatalf("rolled back at write %d, after it: %v", rollback, err)
		}
	}
}
