package vnp

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// Where the pods of a hub's customers run, a provider leaves once the others have all that the hub keeps.
// A dead one ends once its pods are gone, and only a person ends those of a StatefulSet.
func TestCustomersMoveFirst(t *testing.T) {
	hub := &api.VirtualNodePoolSpec{Demand: api.DemandFixed, Min: resources(8, 8), Max: resources(8, 8),
		Providers: api.PoolProviders{Only: []string{"oslo", "bern"}}}
	used := func(p Provider) Provider {
		p.Used = amountsOf(3, 3)
		return p
	}
	p := planner(t, hub)
	at := seen(nil, used(ready("milan", 8)))
	at.Answer = answers(fit("oslo", 8, 8))
	check(t, p.Plan(at), []string{"Create oslo 8"}, WaitsForReservations)
	at = seen(nil, used(ready("milan", 8)), Provider{Name: "oslo", State: Asked, Since: noon, Reserved: amountsOf(8, 8)})
	check(t, p.Plan(at), nil, WaitsForReservations)
	at = seen(nil, used(ready("milan", 8)), ready("oslo", 8))
	plan := p.Plan(at)
	check(t, plan, []string{"Release milan"}, "")
	if got := plan.Used["node-milan"].Of("cpu"); got != 3000 {
		t.Errorf("customers use %d mCPU of milan", got)
	}

	dead := ready("oslo", 8)
	dead.State, dead.Since = NotReady, noon.Add(-deadAfter)
	sticky := pending("db-0", 1, on("node-oslo"), func(p *corev1.Pod) {
		p.Labels = map[string]string{appsv1.StatefulSetPodNameLabel: "db-0"}
	})
	customers := []*corev1.Pod{pending("web", 1, on("node-oslo")), sticky}
	plan = p.Plan(seen(customers, used(dead), ready("bern", 8), ready("basel", 1)))
	i := slices.IndexFunc(plan.Steps, func(s Step) bool { return s.Verb == Clear })
	if i < 0 || len(plan.Steps[i].Pods) != 1 || plan.Steps[i].Pods[0].Name != "web" || plan.Limited != PodsKeep {
		t.Errorf("it plans %+v, limited %q: %s", plan.Steps, plan.Limited, plan.Message)
	}
}

// A hub's provider that is about to become smaller keeps what customers use of it.
func TestCustomersBoundShrinking(t *testing.T) {
	p := planner(t, &api.VirtualNodePoolSpec{Demand: api.DemandFixed, Min: resources(2, 2), Max: resources(8, 8)})
	milan := ready("milan", 8)
	milan.Used = amountsOf(5, 5)
	at := seen(nil, milan)
	check(t, p.Plan(at), nil, "")
	at.Now = noon.Add(10 * time.Minute)
	check(t, p.Plan(at), []string{"Lower milan 5"}, "")
}

// How long a provider may be NotReady until it is dead can be set.
func TestDeadAfter(t *testing.T) {
	for after, want := range map[time.Duration]State{0: NotReady, time.Minute: Dead} {
		p := planner(t, &api.VirtualNodePoolSpec{Demand: api.DemandFixed, Min: resources(2, 2), Max: resources(8, 8)})
		lost := ready("oslo", 8)
		lost.State, lost.Since = NotReady, noon.Add(-time.Minute)
		at := seen(nil, lost, ready("bern", 8))
		at.DeadAfter = after
		if got := p.Plan(at).Providers[1]; got.Name != "oslo" || got.State != want {
			t.Errorf("after %s, it is %+v, want %s", after, got, want)
		}
	}
}
