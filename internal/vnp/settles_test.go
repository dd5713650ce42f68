package vnp

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that no provider can take does not make what shrinks grow back.
func TestShrinksBesideAPodWithoutRoom(t *testing.T) {
	arm := pending("arm", 1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"} })
	w := newWorld(t, spec(20), map[string]int64{}) // no provider has more
	w.Providers = []Provider{ready("milan", 8)}
	w.Pods = []*corev1.Pod{pending("web", 2, on("node-milan")), arm}
	w.stubborn["arm"] = true // milan has amd64
	var all []string
	for range 20 {
		plan := w.step(time.Minute)
		all = append(all, steps(plan)...)
	}
	if !w.provider("milan").Reserved.Equal(amountsOf(2, 2)) {
		t.Errorf("milan has %v: %q", w.provider("milan").Reserved, all)
	}
}

// A pod without a controller that its provider cannot place does not move: room elsewhere does not help it.
func TestAPodThatDoesNotMove(t *testing.T) {
	w := newWorld(t, spec(100), map[string]int64{"oslo": 50})
	w.Providers = []Provider{ready("milan", 4)}
	w.Pods = []*corev1.Pod{pending("bare", 3, func(p *corev1.Pod) {
		status := p.Status
		on("node-milan")(p)
		p.Status = status
	})}
	var all []string
	for range 60 {
		all = append(all, steps(w.step(time.Minute))...)
	}
	if w.grown > 1 {
		t.Errorf("in an hour it grew %d times: %q", w.grown, all)
	}
}

// A pod that came after the virtual node was cordoned was not beside room for a minute.
func TestRoomBeforeThePod(t *testing.T) {
	s := spec(100)
	s.PendingFor = &metav1.Duration{Duration: time.Second}
	p := planner(t, s)
	o := seen(several(8, 1, on("node-milan")), ready("milan", 8), ready("oslo", 4))
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(10 * time.Minute)
	check(t, p.Plan(o), []string{"Release oslo"}, "") // it is cordoned
	late := pending("late", 1)
	late.Status.Conditions[0].LastTransitionTime = metav1.NewTime(o.Now.Add(time.Second))
	o.Pods, o.Now = append(o.Pods, late), o.Now.Add(3*time.Second)
	plan := p.Plan(o)
	if plan.Counted != 1 || slices.Contains(steps(plan), "Release oslo") {
		t.Errorf("2 s after it came: %q, counted %d, not %+v", steps(plan), plan.Counted, plan.Not)
	}
	o.Providers, o.Now = o.Providers[:1], o.Now.Add(time.Hour) // oslo is gone
	if plan := p.Plan(o); plan.Counted != 1 || len(plan.Asks) == 0 {
		t.Errorf("an hour later: counted %d, not %+v", plan.Counted, plan.Not)
	}
}

// Pods that wait while others are being bound to the room that they seem to have.
func TestBindingsThatAreSeenLate(t *testing.T) {
	s := spec(100)
	s.PendingFor = &metav1.Duration{Duration: time.Second}
	p := planner(t, s)
	pods := several(3, 2)
	for _, pod := range pods {
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(10*time.Minute - 2*time.Second))
	}
	pods[0].Status.Conditions, pods[1].Status.Conditions = nil, nil // the scheduler bound these, and the cache lags
	o := seen(nil, ready("milan", 4))
	o.Now = noon.Add(5 * time.Minute)
	p.Plan(o)
	o.Now, o.Pods = noon.Add(10*time.Minute), pods
	p.Plan(o)
	on("node-milan")(pods[0])
	on("node-milan")(pods[1])
	o.Now = noon.Add(2 * time.Hour)
	if plan := p.Plan(o); plan.Counted != 1 || len(plan.Asks) == 0 {
		t.Errorf("counted %d, not %+v", plan.Counted, plan.Not)
	}
}

// A provider that takes 6 minutes until its virtual node is Ready serves the pool if there is no other.
func TestASlowProvider(t *testing.T) {
	w := newWorld(t, spec(100), map[string]int64{"milan": 50})
	w.Pods = several(2, 1)
	created := 0
	for range 120 {
		w.Now = w.Now.Add(30 * time.Second)
		for i := range w.Providers {
			if provider := &w.Providers[i]; provider.State == Asked && w.Now.Sub(provider.Since) >= 6*time.Minute {
				provider.State, provider.Labels = Ready, labels
			}
		}
		w.schedule()
		w.Answer = w.answer
		plan := w.Plan(w.Observation)
		for _, s := range plan.Steps {
			if s.Verb == Create {
				created++
			}
			w.do(s, plan)
		}
	}
	if created != 1 || !slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		t.Errorf("created %d times, %+v", created, w.Providers)
	}
}

// What was moved off a provider that cannot place it, and was bound there again, keeps the room made for it.
func TestRoomForWhatMovesBack(t *testing.T) {
	stuck := func(p *corev1.Pod) {
		status := p.Status
		on("node-milan")(p)
		p.Status = status
		ctl := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: &ctl}}
	}
	p := planner(t, spec(100))
	o := seen([]*corev1.Pod{pending("a", 3, stuck), pending("b", 3, stuck), pending("c", 3, on("node-oslo"))}, ready("milan", 8), ready("oslo", 9))
	var all []string
	for i := range 20 {
		o.Now = noon.Add(time.Duration(i) * time.Minute)
		plan := p.Plan(o)
		for _, s := range plan.Steps {
			switch provider := &o.Providers[1]; {
			case s.Verb == Lower && s.Provider == "oslo":
				provider.Wish = s.Size
			case s.Verb == Restore && s.Provider == "oslo":
				provider.Wish = nil
			}
		}
		all = append(all, steps(plan)...)
	}
	if len(all) > 0 {
		t.Errorf("%q", all)
	}
}

// Too much is reserved for scaleDownAfter, without a pause, before the pool shrinks.
func TestExcessThatWasInterrupted(t *testing.T) {
	p := planner(t, spec(100))
	o := seen(several(4, 1, on("node-milan")), ready("milan", 4), ready("oslo", 4))
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(time.Minute)
	o.Pods = append(o.Pods, several(2, 2, on("node-oslo"))...) // all is used
	o.Providers[0].Changing = true
	check(t, p.Plan(o), nil, "")
	o.Now, o.Pods, o.Providers[0].Changing = noon.Add(time.Hour), o.Pods[:4], false
	check(t, p.Plan(o), nil, "")
}

// Room for two pods helped two pods: a third one counts once the broker is back.
func TestRoomForSomeOfThePods(t *testing.T) {
	p, pods := planner(t, spec(100)), several(3, 2)
	going := pending("old", 4, on("node-milan"))
	going.DeletionTimestamp = &metav1.Time{Time: noon} // it takes two minutes
	o := seen(append(slices.Clone(pods), going), ready("milan", 4))
	o.Reached = false
	p.Plan(o)
	o.Now = noon.Add(2 * time.Minute)
	p.Plan(o)
	p.Plan(o) // it plans again after each answer, and each second
	on("node-milan")(pods[0])
	on("node-milan")(pods[1])
	o.Pods, o.Now, o.Reached = pods, noon.Add(time.Hour), true
	if plan := p.Plan(o); plan.Counted != 1 || len(plan.Asks) == 0 {
		t.Errorf("counted %d, not %+v", plan.Counted, plan.Not)
	}
}

// An hour after the last event, growth is tried again for a pod that it did not help before. That plan says nothing of
// the pods for which there is no room, and the next one does.
func TestGrowthIsTriedAgainBesidePodsWithoutRoom(t *testing.T) {
	s := spec(15)
	s.Providers.Spread = 3 // bern may give 5 of 15
	w := newWorld(t, s, map[string]int64{"bern": 9})
	w.step(time.Minute)
	w.Pods, w.stubborn = append(several(2, 1), several(2, 5)...), map[string]bool{"stubborn": true}
	w.Pods = append(w.Pods, pending("stubborn", 2))
	for range 15 {
		w.step(time.Minute)
	}
	again := 0
	for range 8 {
		plan := w.settle()
		if plan.Limited != LimitedBySpread {
			t.Errorf("at %s: limited %q, %q", w.Now, plan.Limited, steps(plan))
		}
		again = max(again, w.grown)
	}
	if again < 2 {
		t.Error("growth is not tried again")
	}
}
