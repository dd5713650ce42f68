package liqo

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// Pods that growth does not help make no pool grow again and again. Those that must be apart do not count.
// One that is too large for what is left of each of the provider's nodes gets room once, and runs as soon as
// another provider may serve the pool. One whose claim does not exist gets room once, which then goes.
func TestGrowthThatDoesNotHelp(t *testing.T) {
	w := start(t)
	began := time.Now()
	lost := w.bursts(t, "lost", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"paris"} })
	waits := lost.deploy("work", 1, "1", "64Mi", mounts("nowhere"))

	a := w.bursts(t, "unhelped", func(s *api.VirtualNodePoolSpec) {
		s.Providers.Only, s.Max = []string{"milan"}, amounts("40", "80Gi")
	})
	apart := a.deploy("apart", 10, "100m", "64Mi", func(s *corev1.PodSpec) {
		s.NodeSelector = nil
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"deployment": "apart"}},
			}},
		}}
	})
	a.counts(vnp.Affinity, 8) // rome has two nodes
	if made := a.requests(t.Context()); len(made) != 0 {
		t.Errorf("it made %d requests for pods that must be apart", len(made))
	}
	a.scale(apart, 0)

	large := a.run(3, "9", "64Mi") // milan has two nodes of 16 CPU
	a.runAt("two of three large pods run", func(_, milan, _ int) bool { return milan == 2 })
	a.condition(api.ConditionLimited, metav1.ConditionTrue, vnp.NoCandidate)
	// The broker may offer room for the third before it hears that the first two run.
	if has := a.status(t.Context()).CPU; has != "18/18/40" && has != "27/27/40" {
		t.Errorf("two of three pods of 9 CPU fit, and the pool is at %s", has)
	}

	lost.counts(vnp.DidNotHelp, 1)
	if has := lost.status(t.Context()).CPU; has != "0/1/4" && has != "0/0/4" {
		t.Errorf("for a pod of 1 CPU that nothing helps, the pool is at %s", has)
	}
	lost.poolBecomes("0/0/4")
	w.nothingLeft(t, w.rome, w.paris)
	lost.counts(vnp.DidNotHelp, 1)
	if made := w.requestsMade(t, began); made != 2 {
		t.Errorf("the two pools made %d requests", made)
	}
	if err := w.rome.Objects.Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	lost.deletePool()

	a.edit(func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan", "paris"} })
	a.runAt("the third large pod runs elsewhere", func(_, milan, paris int) bool { return milan == 2 && paris == 1 })
	if err := w.rome.Objects.Delete(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	a.poolBecomes("0/0/40")
	w.nothingLeft(t, w.rome, w.milan)
	w.nothingLeft(t, w.rome, w.paris)
	a.deletePool()
}

// counts waits until so many Pending pods do not count, for a reason.
func (a *burst) counts(reason string, pods int32) {
	a.t.Helper()
	what := fmt.Sprintf("%d pods of %s do not count: %s", pods, a.pool.Name, reason)
	eventually(a.t, what, func(ctx context.Context) error {
		s := a.status(ctx)
		if !slices.ContainsFunc(s.Pending.Not, func(u api.UncountedPods) bool {
			return u.Reason == reason && u.Count == pods
		}) {
			return fmt.Errorf("it shows %+v; %s; %s", s.Pending, s.CPU, s.Why)
		}
		return nil
	})
}

// requestsMade returns how many requests the pools of rome made since a time.
func (w *world) requestsMade(t *testing.T, since time.Time) (n int) {
	t.Helper()
	all, err := w.rome.Cluster.Requests(since)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Verb == "create" && r.Resource == "resourcerequests."+api.Group && r.Namespace == api.Namespace {
			n++
		}
	}
	return n
}
