package vnp

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
)

// claims makes a pod use a claim.
func claims(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	}
}

// A pod whose volume is at a provider counts for that provider alone.
func TestVolumesHoldPods(t *testing.T) {
	o := seen([]*corev1.Pod{pending("db", 4, claims("data"))}, ready("milan", 1), ready("oslo", 8))
	o.Volumes = map[string]string{"team/data": "node-milan"}
	p := planner(t, spec(100))
	o.Answer = answers(fit("bern", 50, 50, 4))
	if plan := p.Plan(o); plan.Limited != NoCandidate {
		t.Errorf("room elsewhere: %q, %s", steps(plan), plan.Limited)
	}
	o.Answer = answers(fit("bern", 50, 50, 4), fit("milan", 50, 50, 4))
	check(t, p.Plan(o), []string{"Resize milan 5"}, "")
	o.Volumes["team/data"] = "at-home"
	if plan := p.Plan(o); plan.Counted != 0 || plan.Not[0].Reason != NotAllowed {
		t.Errorf("a volume at home: %+v", plan)
	}
}

// A provider whose volumes are given up leaves although a pod waits for them: no other provider helps it.
func TestVolumesThatAreGivenUp(t *testing.T) {
	s, milan := spec(100), ready("milan", 4)
	s.Providers.Only, milan.Claims, milan.GivenUp = []string{"oslo"}, []string{"team/data"}, true
	o := seen([]*corev1.Pod{pending("web", 1, on("node-milan")), pending("db", 1, claims("data"))}, milan, ready("oslo", 4))
	o.Volumes = map[string]string{"team/data": "node-milan"}
	plan := planner(t, s).Plan(o)
	check(t, plan, []string{"Release milan"}, "")
	if len(plan.Not) != 1 || plan.Not[0].Reason != NotAllowed || plan.Not[0].Example != "team/db" {
		t.Errorf("the pods that do not count are %+v", plan.Not)
	}
}

// Pods that a provider cannot place are demand elsewhere, and move once there is room.
func TestPodsThatAProviderCannotPlace(t *testing.T) {
	stuck := func(p *corev1.Pod) {
		status := p.Status
		on("node-milan")(p)
		p.Status = status
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: ptr.To(true)}}
	}
	bare := func(p *corev1.Pod) { stuck(p); p.OwnerReferences = nil }
	p, o := planner(t, spec(100)), seen([]*corev1.Pod{pending("a", 3, stuck), pending("b", 3, bare)}, ready("milan", 8))
	o.Now = noon.Add(-31 * time.Second)
	if plan := p.Plan(o); len(plan.Asks) > 0 || !plan.Again.Equal(noon.Add(-30*time.Second)) {
		t.Fatalf("before 30 s: %+v", plan)
	}
	o.Now = noon
	o.Answer = answers(fit("milan", 50, 50, 3), fit("oslo", 50, 50, 3))
	plan := p.Plan(o)
	if check(t, plan, []string{"Create oslo 3"}, ""); len(plan.Evict) > 0 {
		t.Errorf("it moves %v before there is room", plan.Evict)
	}
	o.Answer, o.Providers = nil, append(o.Providers, ready("oslo", 3))
	plan = p.Plan(o)
	if names := len(plan.Evict); names != 1 || plan.Evict[0].Name != "a" || len(plan.Asks) > 0 {
		t.Errorf("it moves %d pods: %+v", names, plan)
	}
	if plan := p.Plan(o); len(plan.Evict) > 0 {
		t.Errorf("it moves at once again: %v", plan.Evict)
	}
}

// Pods that are bound, and that a provider refuses, are demand elsewhere. The one that cannot move is named. Those
// that a kubelet has started, or that came a moment ago, are not refused.
func TestPodsThatAProviderRefuses(t *testing.T) {
	bound := func(ago time.Duration, change ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			on("node-milan")(p)
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled,
				Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}}}
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "batch", UID: "batch", Controller: ptr.To(true)}}
			for _, c := range change {
				c(p)
			}
		}
	}
	started := func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(noon.Add(-time.Hour))) }
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	p, o := planner(t, spec(100)), seen([]*corev1.Pod{pending("new", 1, bound(59*time.Second)),
		pending("pulls", 1, bound(time.Hour, started))}, ready("milan", 8))
	o.Answer = answers(fit("milan", 50, 50, 1), fit("oslo", 50, 50, 1))
	if plan := p.Plan(o); plan.Counted != 0 || len(plan.Asks) > 0 || !plan.Again.Equal(noon.Add(time.Second)) {
		t.Errorf("while they begin: %+v", plan)
	}
	o.Pods = append(o.Pods, pending("refused", 1, bound(time.Minute)), pending("bare", 1, bound(time.Minute, bare)))
	plan := p.Plan(o)
	if check(t, plan, []string{"Create oslo 1"}, ""); plan.Counted != 1 {
		t.Errorf("%d pods count", plan.Counted)
	}
	if len(plan.Not) != 1 || plan.Not[0].Reason != NotPlaced || plan.Not[0].Example != "team/bare" {
		t.Errorf("the pods that do not count are %+v", plan.Not)
	}
	o.Answer, o.Providers = nil, append(o.Providers, ready("oslo", 1))
	if plan := p.Plan(o); len(plan.Evict) != 1 || plan.Evict[0].Name != "refused" {
		t.Errorf("it moves %v", plan.Evict)
	}
	o.Providers[0].Since = noon // it was not Ready, and could not take them
	if plan := p.Plan(o); plan.Counted != 0 {
		t.Errorf("a moment after the virtual node is Ready again: %d count", plan.Counted)
	}
}

// A provider that no longer meets the template is replaced at its extension, if the pool says so.
func TestDrift(t *testing.T) {
	for replace, want := range map[api.PoolReplace][]string{
		api.ReplaceOnDrift: {"Create oslo 4"}, api.ReplaceOnFailure: {"Extend milan"}, api.ReplaceNever: {"Extend milan"},
	} {
		s, milan := spec(100), ready("milan", 4)
		s.Replace, milan.Drifted, milan.Unmet = replace, true, true
		o := seen(several(4, 1, on("node-milan")), milan)
		o.Answer = answers(fit("oslo", 50, 50, 1))
		p := planner(t, s)
		plan := p.Plan(o)
		if check(t, plan, nil, ""); !slices.Equal(plan.Drifted, []string{"milan"}) {
			t.Errorf("%s: drifted are %v", replace, plan.Drifted)
		}
		o.Now = noon.Add(12 * time.Hour)
		if replace != api.ReplaceOnDrift {
			check(t, p.Plan(o), want, "")
			continue
		}
		check(t, p.Plan(o), want, WaitsForReservations)
		o.Now = noon.Add(21 * time.Hour) // it stays as long as what runs there needs
		if plan := p.Plan(o); !slices.Contains(steps(plan), "Extend milan") || !plan.Steps[0].Until.Equal(o.Now.Add(6*time.Hour)) {
			t.Errorf("it ends under the pods: %q", steps(plan))
		}
		o.Answer, o.Now, o.Providers = nil, noon.Add(12*time.Hour), append(o.Providers, ready("oslo", 4))
		check(t, p.Plan(o), []string{"Extend oslo", "Release milan"}, "")
	}
}

// A provider that the cluster disabled at its broker is replaced at its extension, not before: a broker's word
// moves no pod.
func TestDisabled(t *testing.T) {
	milan := ready("milan", 4)
	milan.Disabled = true
	o := seen(several(4, 1, on("node-milan")), milan)
	o.Answer = answers(fit("oslo", 50, 50, 1))
	p := planner(t, spec(100))
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(12 * time.Hour)
	check(t, p.Plan(o), []string{"Create oslo 4"}, WaitsForReservations)
	o.Answer, o.Providers = nil, append(o.Providers, ready("oslo", 4))
	check(t, p.Plan(o), []string{"Extend oslo", "Release milan"}, "")
}

// Pods that name an architecture grow a provider of that architecture alone.
func TestArchitectures(t *testing.T) {
	wants := func(architecture string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: architecture}
		}
	}
	for architecture, want := range map[string][]string{"arm64": {"Create oslo 4"}, "amd64": {"Create milan 4"}, "riscv64": nil} {
		o := seen([]*corev1.Pod{pending("a", 4, wants(architecture))})
		o.Node.Labels = map[string]string{corev1.LabelArchStable: "amd64"}
		fits := &api.Fits{Clusters: []api.Fit{fit("milan", 50, 50, 4), fit("oslo", 50, 50, 4)}}
		o.Answer = func(Ask) Answer {
			return Answer{Fits: fits, Architectures: map[string]string{"milan": "amd64", "oslo": "arm64"}}
		}
		p := planner(t, spec(100)).Plan(o)
		if got := steps(p); !slices.Equal(got, want) || (p.Counted == 0) != (want == nil) {
			t.Errorf("%s: %q, %+v", architecture, got, p.Not)
		}
	}
}
