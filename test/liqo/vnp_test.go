package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// Pods that no node can take make a VirtualNodePool grow from nothing, and grow again; once they are
// gone the provider leaves. The same with two providers, for pods that have no room at home. Deleting
// the pool ends the offloading.
func TestAVirtualNodePoolBursts(t *testing.T) {
	w := start(t)
	a := w.bursts(t, "burst", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan"} })
	work := a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	a.poolBecomes("1/1/4")
	var pods corev1.PodList
	if err := w.rome.Objects.List(t.Context(), &pods, kube.InNamespace("burst")); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items { // nothing here could reach it
		if p.Status.PodIP != "" {
			t.Errorf("pod %s has the address %s", p.Name, p.Status.PodIP)
		}
	}
	a.scale(work, 6)
	a.running(w.milan, 6)
	a.poolBecomes("3/3/4")
	a.scale(work, 2)
	a.poolBecomes("1/1/4") // in two steps
	a.running(w.milan, 2)
	a.scale(work, 0)
	a.poolBecomes("0/0/4")
	w.nothingLeft(t, w.rome, w.milan)
	a.spreads()
	a.deletePool()
}

// spreads runs 100 pods. 20 have room at home; the others run at two providers, and neither gives more
// than half of max. Once there are only 20, both providers leave.
func (a *burst) spreads() {
	a.t.Helper()
	a.edit(func(s *api.VirtualNodePoolSpec) {
		s.Max, s.Providers = amounts("60", "60Gi"), api.PoolProviders{Spread: 2}
	})
	for _, n := range a.rome.Nodes { // 7 of 16 CPU are left, which is room for 10 pods
		busy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy-" + n.Name}, Spec: corev1.PodSpec{
			NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "localhost/c",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("9", "64Mi"))}}},
		}}
		if err := a.rome.Objects.Create(a.t.Context(), busy); err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { _ = a.rome.Objects.Delete(context.Background(), busy, kube.GracePeriodSeconds(0)) })
	}
	web := a.deploy("web", 10, "700m", "64Mi", func(s *corev1.PodSpec) { s.NodeSelector = nil })
	a.runAt("10 run at home", func(home, milan, paris int) bool { return home == 10 && milan+paris == 0 })
	began := time.Now()
	a.scale(web, 100)
	a.runAt("20 run at home, the others at two providers", func(home, milan, paris int) bool {
		return home == 20 && milan > 0 && paris > 0 && milan+paris == 80
	})
	a.t.Logf("80 of 100 pods run at two providers after %s", time.Since(began).Round(100*time.Millisecond))
	half := amounts("30", "30Gi")
	for _, r := range a.requests(a.t.Context()) {
		if r.Spec.Resources.Cpu().Cmp(*half.Cpu()) > 0 {
			a.t.Errorf("provider %s gives %s CPU, of 60 in all", r.Spec.Target, r.Spec.Resources.Cpu())
		}
	}
	a.scale(web, 20)
	a.poolBecomes("0/0/60")
	a.nothingLeft(a.t, a.rome, a.milan)
	a.nothingLeft(a.t, a.rome, a.paris)
	a.runAt("20 run at home", func(home, milan, paris int) bool { return home == 20 && milan+paris == 0 })
	if err := a.rome.Objects.Delete(a.t.Context(), web); err != nil {
		a.t.Fatal(err)
	}
}

// burst is a namespace of rome in a VirtualNodePool of the same name.
type burst struct {
	*asked
	pool *api.VirtualNodePool
}

// bursts makes a VirtualNodePool of at most 4 CPU that is quick to grow and to shrink, with a namespace.
func (w *world) bursts(t *testing.T, name string, change func(*api.VirtualNodePoolSpec)) *burst {
	t.Helper()
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.VirtualNodePoolSpec{
		Namespaces: []string{name}, Max: amounts("4", "8Gi"),
		PendingFor: &metav1.Duration{Duration: time.Second}, ScaleDownAfter: &metav1.Duration{Duration: 5 * time.Second},
	}}
	change(&pool.Spec)
	makeNamespace(t, w.rome, name)
	if err := w.rome.Objects.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after a failure: the next test starts from nothing
		if !w.spent && w.rome.Objects.Delete(context.Background(), pool) == nil {
			w.nothingLeft(t, w.rome, w.milan)
			w.nothingLeft(t, w.rome, w.paris)
		}
	})
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	a := &burst{&asked{w, t, w.rome, request}, pool}
	a.isOffloaded()
	return a
}

// deletePool deletes the pool, and waits until its namespace is offloaded no longer.
func (a *burst) deletePool() {
	a.t.Helper()
	if err := a.rome.Objects.Delete(a.t.Context(), a.pool); err != nil {
		a.t.Fatal(err)
	}
	a.isNotOffloaded()
	a.isGone()
}

// isGone waits until the pool is gone.
func (a *burst) isGone() {
	a.t.Helper()
	eventually(a.t, "the pool is gone", func(ctx context.Context) error {
		err := a.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.pool), a.pool)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// runAt waits until as many pods of the namespace run at home and at the providers as is demands.
func (a *burst) runAt(what string, is func(home, milan, paris int) bool) {
	a.t.Helper()
	eventually(a.t, what, func(ctx context.Context) error {
		home, err := countRunning(ctx, a.rome, a.pool.Name, func(p *corev1.Pod) bool {
			return strings.HasPrefix(p.Spec.NodeName, "rome-")
		})
		if err != nil {
			return err
		}
		all, err := countRunning(ctx, a.rome, a.pool.Name, nil)
		if err != nil {
			return err
		}
		milan, err := countRunning(ctx, a.milan, a.pool.Name+"-rome", nil)
		if err != nil {
			return err
		}
		paris, err := countRunning(ctx, a.paris, a.pool.Name+"-rome", nil)
		if err == nil && (!is(home, milan, paris) || all != home+milan+paris) {
			err = fmt.Errorf("%d run, %d at home, %d at milan, %d at paris; %s", all, home, milan, paris, a.status(ctx).Why)
		}
		return err
	})
}

// countRunning counts the Running pods of a namespace for which is returns true, all if it is nil.
func countRunning(ctx context.Context, at *federation.Member, namespace string,
	is func(*corev1.Pod) bool) (n int, err error) {
	var list corev1.PodList
	err = at.Objects.List(ctx, &list, kube.InNamespace(namespace))
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && (is == nil || is(&p)) {
			n++
		}
	}
	return n, err
}

// scale gives a Deployment another number of pods.
func (a *burst) scale(work *appsv1.Deployment, replicas int32) {
	a.t.Helper()
	before := work.DeepCopy()
	work.Spec.Replicas = &replicas
	if err := a.rome.Objects.Patch(a.t.Context(), work, kube.MergeFrom(before)); err != nil {
		a.t.Fatal(err)
	}
}

// edit changes the spec of the pool.
func (a *burst) edit(change func(*api.VirtualNodePoolSpec)) {
	a.t.Helper()
	a.status(a.t.Context())
	before := a.pool.DeepCopy()
	change(&a.pool.Spec)
	if err := a.rome.Objects.Patch(a.t.Context(), a.pool, kube.MergeFrom(before)); err != nil {
		a.t.Fatal(err)
	}
}

// status reads the pool, and returns its status.
func (a *burst) status(ctx context.Context) api.VirtualNodePoolStatus {
	if err := a.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.pool), a.pool); err != nil {
		return api.VirtualNodePoolStatus{Why: err.Error()}
	}
	return a.pool.Status
}

// requests returns the requests of the pool.
func (a *burst) requests(ctx context.Context) []api.ResourceRequest {
	a.t.Helper()
	var list api.ResourceRequestList
	if err := a.rome.Objects.List(ctx, &list, kube.InNamespace(api.Namespace),
		kube.MatchingLabels{api.VirtualNodePoolLabel: a.pool.Name}); err != nil {
		a.t.Fatal(err)
	}
	return list.Items
}

// poolBecomes waits until the pool has so many CPUs used, reserved and at most.
func (a *burst) poolBecomes(cpu string) {
	a.t.Helper()
	eventually(a.t, "the pool has "+cpu, func(ctx context.Context) error {
		if s := a.status(ctx); s.CPU != cpu {
			return fmt.Errorf("it has %s: %+v", s.CPU, s)
		}
		return nil
	})
}

// condition waits until the pool has a condition. A reservation of 4 minutes counts as not extended once
// less than 90 s are left.
func (a *burst) condition(name string, is metav1.ConditionStatus, reason string) {
	a.t.Helper()
	federation.Eventually(a.t, 2*patience, fmt.Sprintf("%s is %s: %s", name, is, reason), func(ctx context.Context) error {
		c := meta.FindStatusCondition(a.status(ctx).Conditions, name)
		if c == nil || c.Status != is || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
