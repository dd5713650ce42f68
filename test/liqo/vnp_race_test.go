package liqo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// races is how many times a Deployment grows again while its pool shrinks.
const races = 12

// A Deployment that grows while its pool shrinks, at each step of that, loses no pod, here or at the
// provider: nobody evicts one.
func TestAPoolShrinksWhileItsPodsGrow(t *testing.T) {
	w := start(t)
	began := time.Now()
	a := w.bursts(t, "raced", func(s *api.VirtualNodePoolSpec) {
		s.Providers.Only = []string{"milan"}
		s.ScaleDownAfter = &metav1.Duration{Duration: time.Second}
	})
	work := a.run(6, "500m", "64Mi")
	a.running(w.milan, 6)
	moments := []struct {
		name string
		is   func(context.Context) bool
	}{
		{"2 pods are left", func(context.Context) bool { return true }},
		{"the pool wishes for less", func(ctx context.Context) bool {
			return a.child(ctx).Annotations[vnp.WishAnnotation] != ""
		}},
		{"the virtual node is smaller", func(ctx context.Context) bool {
			var n corev1.Node
			name := market.SliceName("rome", "milan", api.GeneralPool)
			err := w.rome.Objects.Get(ctx, kube.ObjectKey{Name: name}, &n)
			return err == nil && n.Status.Allocatable.Cpu().MilliValue() < 3000
		}},
		{"the request asks for less", func(context.Context) bool { return false }},
	}
	for i := range races {
		a.scale(work, 2)
		a.running(w.milan, 2)
		here, there := a.uids(w.rome), a.uids(w.milan)
		moment := moments[i%len(moments)]
		at(t, moment.name, func(ctx context.Context) error {
			// a step may be over before it is seen: then the request asks for less
			if !moment.is(ctx) && a.child(ctx).Spec.Resources.Cpu().MilliValue() >= 3000 {
				return errors.New("not yet")
			}
			return nil
		})
		a.scale(work, 6)
		a.running(w.milan, 6)
		a.stay(here, a.uids(w.rome))
		a.stay(there, a.uids(w.milan))
	}
	t.Logf("%d races took %s", races, time.Since(began).Round(time.Second))
	for _, m := range []*federation.Member{w.rome, w.milan} {
		requests, err := m.Cluster.Requests(began)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			evicts := r.Resource == "pods/eviction" || r.Resource == "pods" && r.Verb == "delete" &&
				strings.Contains(r.User, "serviceaccount:"+api.Namespace)
			if evicts && strings.HasPrefix(r.Namespace, "raced") {
				t.Errorf("%s: %s %s of %s/%s", r.User, r.Verb, r.Resource, r.Namespace, r.Name)
			}
		}
	}
	if err := w.rome.Objects.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	a.poolBecomes("0/0/4")
	w.nothingLeft(t, w.rome, w.milan)
	a.deletePool()
}

// child returns the request of the pool.
func (a *burst) child(ctx context.Context) *api.ResourceRequest {
	a.t.Helper()
	all := a.requests(ctx)
	if len(all) != 1 {
		a.t.Fatalf("the pool has %d requests", len(all))
	}
	return &all[0]
}

// uids returns the pods of the namespace at a cluster that are not being deleted: names by UID.
func (a *burst) uids(at *federation.Member) map[types.UID]string {
	a.t.Helper()
	namespace := a.pool.Name
	if at != a.rome {
		namespace += "-rome"
	}
	var list corev1.PodList
	if err := at.Objects.List(a.t.Context(), &list, kube.InNamespace(namespace)); err != nil {
		a.t.Fatal(err)
	}
	out := map[types.UID]string{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out[p.UID] = p.Name
		}
	}
	return out
}

// stay demands that pods that were there are still there.
func (a *burst) stay(were, are map[types.UID]string) {
	a.t.Helper()
	for uid, name := range were {
		if are[uid] == "" {
			a.t.Errorf("pod %s is gone; there are %v", name, are)
		}
	}
}
