package vnp

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
)

// Growth: the largest pods first, those in use before new ones, one new one at a time.
func TestGrows(t *testing.T) {
	for name, c := range map[string]struct {
		spec    func(*api.VirtualNodePoolSpec)
		seen    Observation
		fits    []api.Fit
		want    []string
		limited string
	}{
		"from nothing": {
			seen: seen(several(10, 1)), fits: []api.Fit{fit("milan", 100, 100, 1)}, want: []string{"Create milan 10"},
		},
		"no more than max": {
			seen: seen(several(200, 1)), fits: []api.Fit{fit("milan", 900, 900, 1)},
			want: []string{"Create milan 100"}, limited: "",
		},
		"at max": {seen: seen(several(3, 1), ready("milan", 100)), limited: ""},
		"the provider in use first, for what it has": {
			seen: seen(append(several(8, 1), pending("on", 4, on("node-milan"))), ready("milan", 4)),
			fits: []api.Fit{fit("oslo", 50, 50, 1), fit("milan", 3, 3, 1), fit("bern", 50, 50, 1)},
			want: []string{"Resize milan 7", "Create oslo 5"},
		},
		"a step is at least a tenth": {
			seen: seen(append(several(1, 1), pending("on", 40, on("node-milan"))), ready("milan", 40)),
			fits: []api.Fit{fit("milan", 60, 60, 1)}, want: []string{"Resize milan 44"},
		},
		"three CPUs on nodes of four": {
			seen: seen(several(10, 3)), fits: []api.Fit{fit("milan", 24, 4, 3)}, want: []string{"Create milan 18"},
		},
		"spread": {
			spec: func(s *api.VirtualNodePoolSpec) { s.Providers.Spread = 4 },
			seen: seen(several(60, 1)), fits: []api.Fit{fit("milan", 90, 90, 1), fit("oslo", 90, 90, 1)},
			want: []string{"Create milan 25"},
		},
		"at most one": {
			spec: func(s *api.VirtualNodePoolSpec) { s.Providers.AtMost = 1 },
			seen: seen(append(several(8, 1), pending("on", 4, on("node-milan"))), ready("milan", 4)),
			fits: []api.Fit{fit("oslo", 50, 50, 1)}, limited: LimitedByAtMost,
		},
		"not admitted": {
			spec: func(s *api.VirtualNodePoolSpec) { s.Providers.Exclude = []string{"milan"} },
			seen: seen(several(8, 1)), fits: []api.Fit{fit("milan", 50, 50, 1)}, limited: NoCandidate,
		},
		"nobody has room": {seen: seen(several(8, 1)), fits: []api.Fit{}, limited: NoCandidate},
		"min without pods": {
			spec: func(s *api.VirtualNodePoolSpec) { s.Min = resources(4, 8) },
			seen: seen(nil), fits: []api.Fit{fit("milan", 50, 50)}, want: []string{"Create milan 4"},
		},
		"fixed": {
			spec: func(s *api.VirtualNodePoolSpec) { s.Demand, s.Min = api.DemandFixed, resources(4, 4) },
			seen: seen(several(8, 1), ready("milan", 4)), fits: []api.Fit{fit("milan", 50, 50, 1)},
		},
		"one reservation at a time": {
			seen:    seen(several(8, 1), Provider{Name: "oslo", State: Asked, Since: noon, Reserved: amountsOf(2, 2)}),
			limited: WaitsForReservations,
		},
		"pods without requests need a slot": {
			seen: seen(several(20, 0)), fits: []api.Fit{{Cluster: "milan", Resources: resources(50, 50), Pods: []int64{100}}},
			want: []string{"Create milan 2"},
		},
		"what is asked for is enough": {
			seen: seen(several(8, 1), Provider{Name: "oslo", State: Asked, Since: noon, Reserved: amountsOf(8, 8)}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(100)
			if c.spec != nil {
				c.spec(s)
			}
			p := planner(t, s)
			first := p.Plan(c.seen)
			if len(first.Asks) > 0 && c.fits == nil {
				t.Errorf("it asks for %v", first.Asks)
			}
			if c.fits == nil {
				check(t, first, c.want, c.limited)
				return
			}
			c.seen.Answer = answers(c.fits...)
			check(t, p.Plan(c.seen), c.want, c.limited)
		})
	}
}

func check(t *testing.T, p *Plan, want []string, limited string) {
	t.Helper()
	if got := steps(p); !slices.Equal(got, want) || p.Limited != limited {
		t.Errorf("%q, limited %q (%s), want %q, limited %q", got, p.Limited, p.Message, want, limited)
	}
}

// Pods that a new virtual node would not help do not count, and the plan says why.
func TestPodsThatDoNotCount(t *testing.T) {
	for reason, change := range map[string]func(*corev1.Pod){
		NotYet: func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Second))
		},
		NotAllowed: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
		Affinity: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname"}},
			}}
		},
		Spread: func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}
		},
		TooLarge: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(101, 1) },
		Refused:  func(p *corev1.Pod) { p.Spec.HostNetwork = true },
	} {
		o := seen([]*corev1.Pod{pending("odd", 1, change), pending("plain", 1)})
		o.Refuses = func(p *corev1.Pod) string {
			if p.Spec.HostNetwork {
				return "shares the network of the node"
			}
			return ""
		}
		p := planner(t, spec(100)).Plan(o)
		if p.Counted != 1 || len(p.Not) != 1 || p.Not[0].Reason != reason ||
			p.Not[0].Example != "team/odd" || p.Not[0].Message == "" {
			t.Errorf("%s: %d count, and not %+v", reason, p.Counted, p.Not)
		}
		if reason == NotYet && !p.Again.Equal(noon.Add(29*time.Second)) {
			t.Errorf("it looks again at %s", p.Again)
		}
	}
	o := seen([]*corev1.Pod{pending("untolerant", 1, func(p *corev1.Pod) { p.Spec.Tolerations = nil })})
	if p := planner(t, spec(100)).Plan(o); p.Counted != 0 || p.Not[0].Reason != NotAllowed {
		t.Errorf("a pod without the toleration counts: %+v", p)
	}
}

// A pod that stays Unschedulable beside a node with room for it counts no more, until there is another node.
func TestGrowthThatDidNotHelp(t *testing.T) {
	p, o := planner(t, spec(100)), seen([]*corev1.Pod{pending("a", 2)}, ready("milan", 4))
	if plan := p.Plan(o); plan.Counted != 1 || plan.Again.IsZero() {
		t.Fatalf("at once: %+v", plan)
	}
	o.Now = noon.Add(61 * time.Second)
	if plan := p.Plan(o); plan.Counted != 0 || plan.Not[0].Reason != DidNotHelp {
		t.Fatalf("after a minute: %+v", plan)
	}
	o.Providers[0].Reserved = amountsOf(1, 1) // it shrank: the pod still does not count
	if plan := p.Plan(o); plan.Counted != 0 || len(plan.Asks) > 0 {
		t.Fatalf("after it shrank: %+v", plan)
	}
	o.Providers = append(o.Providers, ready("oslo", 1))
	p.Plan(o)
	if plan := p.Plan(o); plan.Counted != 1 {
		t.Fatalf("with another node: %+v", plan)
	}
}

// The price of all is at most maxPrice: each step gets what the others leave of it.
func TestStaysWithinMaxPrice(t *testing.T) {
	s := spec(100)
	s.MaxPrice = &api.Price{Amount: "48.00", Currency: "EUR", Period: api.PeriodDay}
	p, milan := planner(t, s), ready("milan", 4)
	milan.Cost = 1_500_000_000
	o := seen(append(several(8, 1), pending("on", 4, on("node-milan"))), milan)
	half := api.Price{Amount: "0.5", Currency: "EUR", Period: api.PeriodHour}
	if asks := p.Plan(o).Asks; len(asks) != 1 || *asks[0].MaxPrice != half {
		t.Fatalf("it asks %+v", asks)
	}
	o.Answer = answers(fit("milan", 4, 4, 1), fit("oslo", 8, 8, 1))
	plan := p.Plan(o)
	check(t, plan, []string{"Resize milan 8"}, "")
	if plan.Steps[0].MaxPrice.Amount != "2" {
		t.Errorf("it may cost %+v", plan.Steps[0].MaxPrice)
	}
	o.Providers[0].Cost, o.Answer = 2_000_000_000, answers()
	check(t, p.Plan(o), nil, LimitedByMaxPrice)
}

// It shrinks late: idle providers leave, the dearest first; else one becomes smaller in two steps.
func TestShrinks(t *testing.T) {
	s := spec(100)
	s.MaxPrice = &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}
	p := planner(t, s)
	busy, idle, dear := ready("milan", 10), ready("oslo", 4), ready("bern", 4)
	dear.Cost = 5
	o := seen([]*corev1.Pod{pending("a", 2, on("node-milan"))}, busy, idle, dear)
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(10 * time.Minute)
	check(t, p.Plan(o), []string{"Release bern"}, "")
	o.Providers = []Provider{busy, idle}
	check(t, p.Plan(o), []string{"Release oslo"}, "")
	o.Providers = []Provider{busy}
	plan := p.Plan(o)
	check(t, plan, []string{"Lower milan 2"}, "")

	o.Providers[0].Wish = plan.Steps[0].Size
	check(t, p.Plan(o), nil, "")
	o.Providers[0].Lowered = true
	check(t, p.Plan(o), []string{"Resize milan 2"}, "")
	o.Pods = append(o.Pods, pending("bound meanwhile", 1, on("node-milan")))
	check(t, p.Plan(o), []string{"Restore milan"}, "")
}

// Once a provider is asked to give less, its virtual node stays small until it has answered: pods that were
// bound to more room would be evicted.
func TestAShrinkingProviderIsNotRestored(t *testing.T) {
	p, milan := planner(t, spec(100)), ready("milan", 10)
	milan.Wish, milan.Lowered, milan.Changing = amountsOf(2, 8), true, true
	o := seen([]*corev1.Pod{pending("a", 2, on("node-milan")), pending("waits", 1)}, milan)
	check(t, p.Plan(o), nil, WaitsForReservations)
	o.Providers[0].Changing = false // it was refused
	o.Answer = answers()
	check(t, p.Plan(o), []string{"Restore milan"}, NoCandidate)
}

func TestAnIdleProviderWithVolumesStays(t *testing.T) {
	p, idle := planner(t, spec(100)), ready("oslo", 4)
	idle.Claims = []string{"team/data"}
	o := seen(nil, idle)
	p.Plan(o)
	o.Now = noon.Add(time.Hour)
	if got := steps(p.Plan(o)); slices.Contains(got, "Release oslo") {
		t.Error(got)
	}
}

// Extended when half is left; not extended, it is replaced from a quarter on, but not before the
// broker that is back had time to answer.
func TestLasts(t *testing.T) {
	p, milan := planner(t, spec(100)), ready("milan", 4)
	pods := several(4, 1, on("node-milan"))
	o := seen(pods, milan)
	if plan := p.Plan(o); len(plan.Steps) > 0 || !plan.Again.Equal(noon.Add(11*time.Hour)) {
		t.Errorf("with 23 hours left: %+v", plan)
	}
	o.Now = noon.Add(11*time.Hour + time.Second)
	plan := p.Plan(o)
	if steps(plan)[0] != "Extend milan" || !plan.Steps[0].Until.Equal(o.Now.Add(24*time.Hour)) {
		t.Errorf("with half left: %+v", plan)
	}
	o.Now, o.Reached = noon.Add(22*time.Hour), false
	if plan := p.Plan(o); !slices.Equal(steps(plan), []string{"Extend milan"}) ||
		len(plan.NotExtended) != 1 || len(plan.Asks) > 0 {
		t.Errorf("the broker is away: %+v", plan)
	}
	o.Reached = true
	if plan := p.Plan(o); len(plan.Asks) > 0 {
		t.Errorf("the broker is back: %+v", plan)
	}
	o.Now = o.Now.Add(6 * time.Minute)
	if plan := p.Plan(o); len(plan.Asks) == 0 || !plan.Asks[0].Size.Equal(amountsOf(4, 4)) {
		t.Errorf("it is not extended: %+v", plan)
	}
}

// What cannot be extended is reserved again beside it, within what the others leave of maxPrice.
func TestReservesAgain(t *testing.T) {
	s := spec(100)
	s.MaxPrice = &api.Price{Amount: "2", Currency: "EUR", Period: api.PeriodHour}
	p, milan := planner(t, s), ready("milan", 4)
	milan.Ends, milan.Cost = true, 1_000_000_000
	o := seen(several(4, 1, on("node-milan")), milan)
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(12 * time.Hour)
	plan := p.Plan(o)
	if check(t, plan, []string{"Renew milan 4"}, ""); plan.Steps[0].MaxPrice.Amount != "2" {
		t.Errorf("it may cost %v", plan.Steps[0].MaxPrice)
	}
	o.Providers[0].Changing = true
	check(t, p.Plan(o), nil, "")
	o.Providers[0].Changing, o.Avoid = false, []string{"milan"} // it refused
	check(t, p.Plan(o), nil, "")
	o.Now = noon.Add(17 * time.Hour)
	check(t, p.Plan(o), nil, "") // it is replaced from a quarter on
	o.Now = noon.Add(18 * time.Hour)
	if plan := p.Plan(o); len(plan.Asks) == 0 || slices.Contains(steps(plan), "Renew milan 4") {
		t.Errorf("with a quarter left: %+v", plan)
	}
}

// It says how much time is left of what is not extended: a half, a quarter, an eighth.
func TestNotExtended(t *testing.T) {
	p, o := planner(t, spec(100)), seen(several(4, 1, on("node-milan")), ready("milan", 4))
	for _, c := range []struct {
		left time.Duration
		want string
	}{
		{12 * time.Hour, ""}, {12*time.Hour - 6*time.Minute, "milan (less than half of its time is left)"},
		{6*time.Hour - time.Second, "milan (less than a quarter of its time is left)"},
		{time.Hour, "milan (less than an eighth of its time is left)"},
	} {
		o.Now = o.Providers[0].Until.Add(-c.left)
		plan := p.Plan(o)
		if got := strings.Join(plan.NotExtended, ", "); got != c.want {
			t.Errorf("with %s left: %q, want %q", c.left, got, c.want)
		}
		if c.want == "" && !plan.Again.Equal(o.Providers[0].Until.Add(-12*time.Hour+5*time.Minute+time.Second)) {
			t.Errorf("it looks again at %s", plan.Again)
		}
	}
}

// A pod that no provider can take does not keep a provider that leaves, as what runs there has room.
func TestLeavesBesideAPodWithoutRoom(t *testing.T) {
	s := spec(20)
	s.Providers.Only = []string{"oslo"}
	o := seen([]*corev1.Pod{pending("web", 1, on("node-milan")), pending("huge", 12)}, ready("milan", 4), ready("oslo", 4))
	o.Answer = answers()
	p := planner(t, s)
	check(t, p.Plan(o), []string{"Release milan"}, NoCandidate)
	o.Pods = append(o.Pods, pending("large", 4)) // it takes the room
	check(t, p.Plan(o), nil, NoCandidate)
}

// What runs at a provider that goes has room elsewhere before it is released.
func TestReplaces(t *testing.T) {
	s := spec(10)
	p, milan := planner(t, s), ready("milan", 8)
	milan.State, milan.Since = NotReady, noon.Add(-4*time.Minute)
	pods := several(8, 1, on("node-milan"))
	o := seen(pods, milan, ready("oslo", 1), ready("bern", 1))
	o.Answer = answers(fit("milan", 50, 50, 1), fit("rome", 50, 50, 1))
	plan := p.Plan(o) // max counts without the dead one
	if got := steps(plan); !slices.Equal(got, []string{"Create rome 6"}) {
		t.Fatalf("%q, %s: %s", got, plan.Limited, plan.Message)
	}
	asked := Provider{Name: "rome", State: Asked, Since: noon, Reserved: amountsOf(6, 6)}
	o.Answer, o.Providers = nil, append(o.Providers, asked)
	check(t, p.Plan(o), nil, WaitsForReservations)
	o.Providers[3] = ready("rome", 6)
	check(t, p.Plan(o), []string{"Clear milan"}, "")
	o.Providers[0].Claims = []string{"team/data"}
	if plan := p.Plan(o); len(plan.Steps) > 0 || !slices.Equal(plan.VolumesKeep, []string{"milan"}) {
		t.Errorf("it has volumes: %+v", plan)
	}
	o.Providers[0].GivenUp = true
	check(t, p.Plan(o), []string{"Clear milan"}, "")

	// Its pods go first, also those that Kubernetes cannot delete. Only a person deletes one of a StatefulSet.
	o.Providers[0].Claims = nil
	pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: "db", Controller: ptr.To(true)}}
	pods[1].DeletionTimestamp = &metav1.Time{Time: noon}
	plan = p.Plan(o)
	if check(t, plan, []string{"Clear milan"}, PodsKeep); len(plan.Steps[0].Pods) != 7 {
		t.Errorf("it deletes %d pods", len(plan.Steps[0].Pods))
	}
	o.Pods = pods[:1]
	check(t, p.Plan(o), nil, PodsKeep)
	o.Pods = nil
	if plan := p.Plan(o); len(plan.Steps) == 0 || plan.Steps[0].Verb != Clear || len(plan.Steps[0].Pods) > 0 {
		t.Errorf("it stays: %q", steps(plan))
	}

	s = spec(10)
	s.Replace = api.ReplaceNever
	plan = planner(t, s).Plan(seen(pods, milan, ready("oslo", 2), ready("bern", 2)))
	check(t, plan, nil, "")
}

// Most nodes are not Ready, or the only one is not and no broker answers: this cluster is cut off.
func TestCutOff(t *testing.T) {
	milan, oslo, bern := ready("milan", 8), ready("oslo", 8), ready("bern", 8)
	milan.State, milan.Since = NotReady, noon.Add(-time.Hour)
	oslo.State, oslo.Since = NotReady, noon.Add(-time.Hour)
	pods := append(several(8, 1, on("node-milan")), several(8, 3)...)
	plan := planner(t, spec(100)).Plan(seen(pods, milan, oslo, bern))
	if !plan.AllNotReady || len(plan.Steps) > 0 || len(plan.Asks) > 0 {
		t.Errorf("most are not Ready: %+v", plan)
	}
	o := seen(pods, milan)
	o.Reached = false
	if plan := planner(t, spec(100)).Plan(o); !plan.AllNotReady || len(plan.Steps) > 0 {
		t.Errorf("the only one, and the broker: %+v", plan)
	}
	o.Reached = true
	if plan := planner(t, spec(100)).Plan(o); plan.AllNotReady || len(plan.Asks) == 0 {
		t.Errorf("the only one: %+v", plan)
	}
}

func TestSpecsThatCannotBe(t *testing.T) {
	for field, change := range map[string]func(*api.VirtualNodePoolSpec){
		"max":     func(s *api.VirtualNodePoolSpec) { s.Max = nil },
		"min.cpu": func(s *api.VirtualNodePoolSpec) { s.Min = resources(101, 0) },
		"maxPrice.amount": func(s *api.VirtualNodePoolSpec) {
			s.MaxPrice = &api.Price{Amount: "x", Currency: "EUR", Period: api.PeriodHour}
		},
	} {
		s := spec(100)
		change(s)
		if _, err := New(s); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", field, err)
		}
	}
}
