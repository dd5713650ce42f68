package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// numbers are what a cluster shows of one resource in its pool, in thousandths.
type numbers struct{ Capacity, Allocatable, Allocated, Shared, Reserved, Available int64 }

func numbersOf(a api.Amounts, name corev1.ResourceName) numbers {
	n := func(r api.Resources) int64 { q := r[name]; return q.MilliValue() }
	return numbers{n(a.Capacity), n(a.Allocatable), n(a.Allocated), n(a.Shared), n(a.Reserved), n(a.Available)}
}

// have is n with so much more on nodes that count.
func (n numbers) have(more int64) numbers {
	n.Capacity, n.Allocatable, n.Shared, n.Available = n.Capacity+more, n.Allocatable+more, n.Shared+more, n.Available+more
	return n
}

// take is n with so much more for pods of the cluster's own.
func (n numbers) take(more int64) numbers {
	n.Allocated, n.Available = n.Allocated+more, n.Available-more
	return n
}

// reserve is n with so much more reserved.
func (n numbers) reserve(more int64) numbers {
	n.Reserved, n.Available = n.Reserved+more, n.Available-more
	return n
}

// advertised are the numbers of the cluster's Advertisement, for its own people.
func advertised(ctx context.Context, m *federation.Member, name corev1.ResourceName) (numbers, error) {
	var a api.Advertisement
	err := m.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "cluster"}, &a)
	return numbersOf(a.Status.Pools[api.GeneralPool], name), err
}

// listed are the numbers that the broker shows of a cluster to others.
func (w *world) listed(ctx context.Context, m *federation.Member, name corev1.ResourceName) (numbers, error) {
	c, err := w.Operator.Cluster(ctx, m.Name)
	return numbersOf(c.Payload.Pools[api.GeneralPool], name), err
}

// shows waits until the cluster and the broker both show the numbers wanted, and returns them.
func (w *world) shows(t *testing.T, m *federation.Member, name corev1.ResourceName, want numbers) numbers {
	t.Helper()
	eventually(t, fmt.Sprintf("the %s of %s is as it should be", name, m.Name), func(ctx context.Context) error {
		here, err := advertised(ctx, m, name)
		if err != nil {
			return err
		}
		there, err := w.listed(ctx, m, name)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, here) + cmp.Diff(want, there); diff != "" {
			return fmt.Errorf("-want +got, in the cluster or at the broker:\n%s", diff)
		}
		return nil
	})
	return want
}

// now waits until the cluster and the broker show the same, and just what is reserved is counted,
// and returns it.
func (w *world) now(t *testing.T, m *federation.Member, name corev1.ResourceName) (n numbers) {
	t.Helper()
	eventually(t, "the broker shows what "+m.Name+" does", func(ctx context.Context) error {
		all, err := w.Operator.Reservations(ctx)
		if err != nil {
			return err
		}
		reserved := int64(0)
		for _, r := range all {
			if r.Payload.Provider == m.Name && r.Payload.State.Counts() {
				amount := r.Payload.Resources[name]
				reserved += amount.MilliValue()
			}
		}
		here, err := advertised(ctx, m, name)
		if err != nil {
			return err
		}
		if n, err = w.listed(ctx, m, name); err != nil || n != here || n.Reserved != reserved {
			return fmt.Errorf("the cluster shows %+v, the broker %+v (%w), reservations are %d", here, n, err, reserved)
		}
		return nil
	})
	return n
}
