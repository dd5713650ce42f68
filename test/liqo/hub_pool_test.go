package liqo

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// poolLabel is on the virtual nodes of the VirtualNodePool upstream.
var poolLabel = map[string]string{api.VirtualNodePoolLabel: "upstream"}

// gathers makes a VirtualNodePool of milan, which keeps so much of some providers to lend it on.
func (w *world) gathers(t *testing.T, size api.Resources, providers ...string) *api.VirtualNodePool {
	t.Helper()
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "upstream"}, Spec: api.VirtualNodePoolSpec{
		Demand: api.DemandFixed, Min: size, Max: size,
		Template:       api.ReservationTemplate{Relend: true},
		Offload:        api.PoolOffload{Reflect: &api.Reflect{Secrets: api.ReflectAll}},
		Providers:      api.PoolProviders{Only: providers},
		ScaleDownAfter: &metav1.Duration{Duration: time.Second},
	}}
	if err := w.milan.Objects.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.milan.Objects.Delete(context.Background(), pool) })
	return pool
}

// sized edits how much a VirtualNodePool of milan keeps.
func (w *world) sized(t *testing.T, pool *api.VirtualNodePool, cpu, memory string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"min":{"cpu":%q,"memory":%q},"max":{"cpu":%q,"memory":%q}}}`, cpu, memory, cpu, memory)
	if err := w.milan.Objects.Patch(t.Context(), pool.DeepCopy(), kube.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// gathered waits until a VirtualNodePool of milan is Ready, with so many CPUs used, reserved and at most.
func (w *world) gathered(t *testing.T, pool *api.VirtualNodePool, cpu string) {
	t.Helper()
	eventually(t, "milan has gathered "+cpu, func(ctx context.Context) error {
		if err := w.milan.Objects.Get(ctx, kube.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if pool.Status.CPU != cpu || !meta.IsStatusConditionTrue(pool.Status.Conditions, api.ConditionReady) {
			return fmt.Errorf("it has %s: %+v", pool.Status.CPU, pool.Status)
		}
		return nil
	})
}

// disbanded deletes a VirtualNodePool of milan, and waits until it is gone.
func (w *world) disbanded(t *testing.T, pool *api.VirtualNodePool) {
	t.Helper()
	if err := w.milan.Objects.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pool is gone", func(ctx context.Context) error {
		if err := w.milan.Objects.Get(ctx, kube.ObjectKeyFromObject(pool), pool); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %s: %w", pool.Status.Why, err)
		}
		return nil
	})
}

// A hub lends on what a VirtualNodePool gathers, and no more than that as it grows and shrinks.
func TestAVirtualNodePoolBehindAHub(t *testing.T) {
	w := start(t)
	w.hub(t, poolLabel)
	pool := w.gathers(t, amounts("8", "16Gi"), "paris")
	w.offers(t, "milan", map[string]string{api.GeneralPool: "8"})
	a := w.ask(t, w.rome, w.milan, "gathered", amounts("4", "8Gi"))
	a.becomes(api.Active)
	a.run(3, "500m", "64Mi")
	a.running(w.milan, 3)
	node := upstreamNode(t, w, poolLabel)
	if node.Name == market.SliceName("milan", "paris", api.GeneralPool) {
		t.Errorf("the customers can compute the name of virtual node %s", node.Name)
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.BurstTaint }) {
		t.Errorf("the virtual node has the taints %+v", node.Spec.Taints)
	}
	w.sized(t, pool, "12", "24Gi")
	w.offers(t, "milan", map[string]string{api.GeneralPool: "12"})
	w.gathered(t, pool, "1500m/12/12")
	w.sized(t, pool, "6", "12Gi")
	w.offers(t, "milan", map[string]string{api.GeneralPool: "6"})
	w.gathered(t, pool, "1500m/6/6")
	a.running(w.milan, 3)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	w.disbanded(t, pool)
	w.nothingLeft(t, w.milan, w.paris)
}
