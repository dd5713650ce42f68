package vnp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
)

const gpu = "nvidia.com/gpu"

// running counts the pods with a prefix that run.
func (w *world) running(prefix string) (n int) {
	for _, p := range w.Pods {
		if p.Spec.NodeName != "" && p.Labels["kind"] == prefix {
			n++
		}
	}
	return n
}

// all counts the pods of a kind.
func (w *world) all(kind string) (n int) {
	for _, p := range w.Pods {
		if p.Labels["kind"] == kind {
			n++
		}
	}
	return n
}

// add makes Pending pods of a kind.
func (w *world) add(kind string, n int, cpu int64, change ...func(*corev1.Pod)) {
	for range n {
		w.made++
		pod := pending(fmt.Sprintf("%s-%d", kind, w.made), cpu, change...)
		pod.Labels = map[string]string{"kind": kind}
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.Now)
		w.Pods = append(w.Pods, pod)
	}
}

func wantsGPU(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[gpu] = *resource.NewQuantity(1, resource.DecimalSI)
}

func ofDaemonSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "log", UID: "log", Controller: ptr.To(true)}}
}

// event is one event of a history, with numbers that mean something else for each kind.
type event struct {
	kind   string
	n, cpu int
}

// Kinds of pods that cannot be served. Growth is tried for growable ones: nobody knows before that it does not help.
var (
	hopeless = []string{"arm", "daemons", "dear", "gpu", "large", "late", "stubborn"}
	growable = []string{"arm", "late", "stubborn"}
)

// drawHistory returns what happens to the pool each minute. What is asked for fits, whenever it is asked. tried says
// that there are pods for which growth is tried.
func drawHistory(t *rapid.T, tried bool) (minutes [][]event) {
	draw := func(kind string, n, cpu int) event {
		return event{kind, rapid.IntRange(1, n).Draw(t, kind), rapid.IntRange(1, cpu).Draw(t, "cpu")}
	}
	served := 0
	for range rapid.IntRange(1, 6).Draw(t, "events") {
		var all []event
		for _, kind := range hopeless {
			if rapid.IntRange(0, 2).Draw(t, kind) == 0 && (tried || !slices.Contains(growable, kind)) {
				all = append(all, draw(kind, 9, 3))
			}
		}
		if small := draw("small", 4, 2); served+small.n <= 8 {
			served += small.n
			all = append(all, small)
		}
		switch kind := rapid.SampledFrom([]string{"none", "fewer", "away", "contract", "node", "edit", "silent",
			"ends"}).Draw(t, "kind"); kind {
		case "none":
		default:
			all = append(all, draw(kind, 2, 8))
		}
		minutes = append(minutes, all)
		for range rapid.IntRange(0, 9).Draw(t, "minutes") {
			minutes = append(minutes, nil)
		}
	}
	return minutes
}

// happen lets an event happen.
func (w *world) happen(e event) {
	name := []string{"milan", "oslo"}[e.n%2]
	var provider *Provider
	if slices.ContainsFunc(w.Providers, func(p Provider) bool { return p.Name == name }) {
		provider = w.provider(name)
	}
	switch e.kind {
	case "small":
		w.add("small", e.n, int64(e.cpu))
	case "large": // no node is so large
		for i := range e.n {
			w.add("large", 1, int64(11+i))
		}
	case "dear": // if it is priced, and else too large
		w.add("dear", 1, 40)
	case "gpu":
		w.add("gpu", e.n, int64(e.cpu), wantsGPU)
	case "arm", "stubborn", "daemons", "late":
		cpu := int64(e.cpu)
		if e.kind == "late" { // it has room beside all others once it is served
			cpu = 1
		}
		w.add(e.kind, 1, cpu, func(p *corev1.Pod) {
			switch e.kind {
			case "arm":
				p.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"}
			case "daemons":
				p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "at-home"}
				ofDaemonSet(p)
			}
		})
		w.stubborn[w.Pods[len(w.Pods)-1].Name] = true
	case "fewer": // users delete pods
		n := 0
		w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool {
			if p.Labels["kind"] == "small" {
				n++
			}
			return p.Labels["kind"] == "small" && n%(e.n+1) == 0
		})
	case "away": // with its node, for so many minutes
		w.away[name] = !w.away[name]
		if provider != nil && w.away[name] && provider.State == Ready {
			provider.State, provider.Since = NotReady, w.Now
		}
	case "node":
		if provider != nil && provider.State == Ready {
			provider.State, provider.Since = NotReady, w.Now
		}
	case "contract":
		if provider != nil {
			provider.Ends = true
		}
	case "ends": // its provider ends it early
		if provider != nil {
			w.end(name)
		}
	case "edit":
		w.spec.Providers.Exclude = [][]string{nil, {name}}[e.cpu%2]
	case "silent":
		w.Reached = !w.Reached
	}
}

// Pods that cannot be served change nothing for others, of any kind, at any time and in any history: in the end the
// others run, as they do without them. What is served late runs, too.
func TestAPodThatCannotBeServedChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		priced, daemons, tried := rapid.Bool().Draw(t, "priced"), rapid.Bool().Draw(t, "daemons"), rapid.Bool().Draw(t, "tried")
		history := drawHistory(t, tried)
		ends := func(with bool) *world {
			s := spec(100)
			s.Max[gpu] = *resource.NewQuantity(8, resource.DecimalSI)
			w := newWorld(t, s, map[string]int64{"milan": 60, "oslo": 60})
			w.nodeSize, w.daemons = 10, daemons
			if priced {
				s.MaxPrice = &api.Price{Amount: "30", Currency: "EUR", Period: api.PeriodHour}
				w.price["milan"], w.price["oslo"] = 1_000_000_000, 1_000_000_000
			}
			w.Planner = planner(t, s)
			for _, events := range history {
				for _, e := range events {
					if with || !slices.Contains(hopeless, e.kind) {
						w.happen(e)
					}
				}
				w.live(time.Minute)
			}
			w.Reached, w.away, s.Providers.Exclude = true, map[string]bool{}, nil
			for i := range w.Providers {
				if p := &w.Providers[i]; p.State == NotReady {
					p.State, p.Since = Ready, w.Now
				}
			}
			maps.DeleteFunc(w.stubborn, func(name string, _ bool) bool { return strings.HasPrefix(name, "late-") })
			for range 12 {
				w.live(10 * time.Minute)
			}
			return w
		}
		with, without := ends(true), ends(false)
		for _, kind := range []string{"small", "late"} {
			for _, w := range []*world{with, without} {
				if got, all := w.running(kind), w.all(kind); got != all {
					plan := w.step(time.Minute)
					t.Fatalf("%d of %d %s pods run; providers %+v, limited %s: %s", got, all, kind, w.Providers,
						plan.Limited, plan.Message)
				}
			}
		}
	})
}

// A pod that growth did not help counts again once other pods fill the node that had room for it.
func TestAPodThatIsHelpedTooLate(t *testing.T) {
	w := newWorld(t, spec(100), map[string]int64{"milan": 95})
	w.Providers = []Provider{ready("milan", 5)}
	w.Pods = []*corev1.Pod{pending("web", 1, on("node-milan"))}
	w.add("late", 1, 3)
	late := w.Pods[1]
	w.stubborn[late.Name] = true // its claim is missing
	for range 3 {
		w.step(time.Minute)
	}
	if plan := w.step(time.Second); len(plan.Not) != 1 || plan.Not[0].Reason != DidNotHelp {
		t.Fatalf("beside room it counts: %+v", plan.Not)
	}
	w.Pods = append(w.Pods, pending("other", 4, on("node-milan")))
	w.stubborn[late.Name] = false
	for range 10 {
		w.step(time.Minute)
	}
	if late.Spec.NodeName == "" {
		t.Errorf("it waits beside a full node: %+v", w.Providers)
	}
}

// Pods of a DaemonSet count at the provider, and so in the plan. They cause no growth, and keep no node.
func TestPodsOfADaemonSet(t *testing.T) {
	p := planner(t, spec(100))
	daemon := pending("log", 6, ofDaemonSet, on("node-milan"))
	o := seen([]*corev1.Pod{daemon, pending("web", 4, on("node-milan"))}, ready("milan", 16))
	p.Plan(o)
	o.Now = noon.Add(time.Hour)
	check(t, p.Plan(o), []string{"Lower milan 10"}, "")

	full := seen([]*corev1.Pod{daemon, pending("web", 4, on("node-milan")), pending("waits", 5)}, ready("milan", 10))
	full.Now = noon.Add(2 * time.Hour)
	if plan := planner(t, spec(100)).Plan(full); plan.Counted != 1 || len(plan.Asks) != 1 {
		t.Errorf("beside a full node %d count: %+v", plan.Counted, plan.Not)
	}

	idle := seen([]*corev1.Pod{daemon}, ready("milan", 16))
	p = planner(t, spec(100))
	p.Plan(idle)
	idle.Now = noon.Add(time.Hour)
	check(t, p.Plan(idle), []string{"Release milan"}, "")
	if plan := planner(t, spec(100)).Plan(seen([]*corev1.Pod{daemon}, ready("milan", 6))); len(plan.Asks) > 0 {
		t.Errorf("it asks for more: %+v", plan.Asks)
	}
}

// A pod is nominated for a node that is gone: it waits for a node like any other.
func TestNominatedPods(t *testing.T) {
	nominated := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
	}
	o := seen([]*corev1.Pod{pending("a", 1, nominated("gone")), pending("b", 1, nominated("here"))})
	o.Nodes = map[string]bool{"gone": false, "here": true}
	plan := planner(t, spec(100)).Plan(o)
	if plan.Counted != 1 || len(plan.Not) != 1 || plan.Not[0].Reason != Nominated || plan.Not[0].Example != "team/b" {
		t.Errorf("%d count, and not %+v", plan.Counted, plan.Not)
	}
}

// A plan for thousands of pods of different sizes asks the broker, and looks at each pod, a bounded number of times.
func TestWorkOfThousandsOfPods(t *testing.T) {
	const n = 1000
	looks, asks := 0, 0
	o := seen(nil, ready("milan", 1))
	for i := range n {
		o.Pods = append(o.Pods, pending(fmt.Sprint("p-", i), 2, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = *resource.NewMilliQuantity(int64(2000+i), resource.DecimalSI)
		}))
	}
	o.Refuses = func(*corev1.Pod) string { looks++; return "" }
	o.Answer = func(Ask) Answer { asks++; return Answer{Fits: &api.Fits{}} }
	if plan := planner(t, spec(100_000)).Plan(o); looks != n || asks > maxAsks || plan.Again.IsZero() {
		t.Errorf("it looks at %d of %d pods, asks %d times, and looks again at %s", looks, n, asks, plan.Again)
	}
	o.Pods = o.Pods[:40]
	for _, each := range []time.Duration{time.Second, time.Minute} {
		tried := map[string]bool{}
		o.Answer = func(a Ask) Answer {
			if len(a.Pods) == 1 {
				tried[fmt.Sprint(a.Size)] = true
			}
			return Answer{Fits: &api.Fits{}}
		}
		p := planner(t, spec(100_000))
		for i := range 8 {
			o.Now = noon.Add(time.Duration(i) * each)
			p.Plan(o)
		}
		if len(tried) != 40 {
			t.Errorf("planned each %s, %d of 40 sizes get their turn", each, len(tried))
		}
	}
}

// Also where each ask takes many pages, each shape gets its turn.
func TestEachShapeGetsItsTurn(t *testing.T) {
	for _, shapes := range []int{7, 14} {
		o := seen(nil, ready("milan", 1))
		for i := range shapes {
			o.Pods = append(o.Pods, pending(fmt.Sprint("p-", i), 2, func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["cpu"] = *resource.NewMilliQuantity(int64(2000+i), resource.DecimalSI)
			}))
		}
		for i := range 80 {
			o.Avoid = append(o.Avoid, fmt.Sprintf("avoid-%02d", i))
		}
		tried := map[string]bool{}
		o.Answer = func(a Ask) (out Answer) {
			if len(a.Pods) == 1 {
				tried[fmt.Sprint(a.Size)] = true
			}
			out.Fits, out.More = &api.Fits{}, true
			for _, name := range o.Avoid {
				if len(out.Named) < 8 && !slices.Contains(a.Without, name) {
					out.Named = append(out.Named, name)
					out.Fits.Clusters = append(out.Fits.Clusters, fit(name, 50, 50, 1))
				}
			}
			return out
		}
		p := planner(t, spec(100_000))
		for i := range 2 * shapes {
			o.Now = noon.Add(time.Duration(i) * time.Minute)
			p.Plan(o)
		}
		if len(tried) != shapes {
			t.Errorf("%d of %d shapes got their turn", len(tried), shapes)
		}
	}
}

// Clusters that an answer names, and that may not serve the pool, hide no others.
func TestMoreClustersThanAnAnswerNames(t *testing.T) {
	o := seen(several(2, 1))
	for i := range 80 {
		o.Avoid = append(o.Avoid, fmt.Sprintf("avoid-%02d", i))
	}
	o.Answer = func(a Ask) (out Answer) {
		out.Fits = &api.Fits{}
		for _, name := range slices.Concat(o.Avoid[60:], []string{"milan"}) {
			if len(out.Named) < 8 && !slices.Contains(a.Without, name) {
				out.Named = append(out.Named, name)
				out.Fits.Clusters = append(out.Fits.Clusters, fit(name, 50, 50, 1))
			}
		}
		out.More = len(a.Without) < 16
		return out
	}
	check(t, planner(t, spec(100)).Plan(o), []string{"Create milan 2"}, "")
}
