package vnp

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// Providers whose virtual nodes never become Ready cost no more than maxPrice together, as soon as the next one is
// reserved.
func TestProvidersThatAreNeverReady(t *testing.T) {
	s := spec(100)
	s.MaxPrice = &api.Price{Amount: "4", Currency: "EUR", Period: api.PeriodHour}
	w := newWorld(t, s, map[string]int64{})
	for _, name := range []string{"bern", "milan", "oslo", "rome"} {
		w.capacity[name], w.price[name] = 50, 1_000_000_000
	}
	w.Pods = several(4, 1)
	over := 0
	for minute := range 60 {
		w.Now = w.Now.Add(time.Minute)
		w.Answer = w.answer
		plan := w.Plan(w.Observation)
		for _, s := range plan.Steps {
			w.do(s, plan)
		}
		cost := int64(0)
		for _, p := range w.Providers {
			cost += p.Cost
		}
		if over++; cost <= w.budget {
			over = 0
		}
		if over > 1 {
			t.Fatalf("after %d minutes %d providers cost %d", minute, len(w.Providers), cost)
		}
	}
}

// A provider that is not Ready in time goes once what waits has room elsewhere, also beside a pod that nobody takes.
func TestALateProviderBesideAPodWithoutRoom(t *testing.T) {
	late := ready("milan", 2)
	late.State, late.Labels, late.Since = Asked, nil, noon.Add(-time.Hour)
	o := seen([]*corev1.Pod{pending("web", 2, on("node-oslo")), pending("huge", 12)}, late, ready("oslo", 2))
	o.Answer = answers()
	plan := planner(t, spec(20)).Plan(o)
	check(t, plan, []string{"Release milan"}, NoCandidate)
}

// A provider that an admin no longer admits goes, also if it is not Ready.
func TestALateProviderThatIsNotAdmitted(t *testing.T) {
	s := spec(20)
	s.Providers.Only = []string{"oslo"}
	late := ready("milan", 2)
	late.State, late.Labels, late.Since = Asked, nil, noon.Add(-time.Hour)
	o := seen([]*corev1.Pod{pending("web", 2)}, late)
	o.Answer = answers()
	check(t, planner(t, s).Plan(o), []string{"Release milan"}, NoCandidate)
}

// A provider that is late serves min, too, if no other does.
func TestALateProviderServesMin(t *testing.T) {
	s := spec(20)
	s.Min = resources(2, 2)
	late := ready("milan", 2)
	late.State, late.Labels, late.Since = Asked, nil, noon.Add(-time.Hour)
	o := seen(nil, late)
	o.Answer = answers()
	plan := planner(t, s).Plan(o)
	check(t, plan, nil, NoCandidate)
	const says = "waits for milan, not Ready yet; no other provider has room for what is missing of min"
	if plan.Message != says || plan.Providers[0].State != Asked {
		t.Errorf("it is %s: %s", plan.Providers[0].State, plan.Message)
	}
}
