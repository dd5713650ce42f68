package vnp

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/money"
)

// world is a cluster with one pool, its scheduler, and a federation that does what is asked.
type world struct {
	*Planner
	Observation
	capacity map[string]int64 // CPUs that are free, by provider
	price    map[string]int64 // of a CPU for an hour
	stubborn map[string]bool  // pods that the scheduler never places
	left     map[string]bool  // providers that were replaced, or about to be, and may have come back
	nodeSize int64            // CPUs of a provider's nodes; 0: one node has all
	away     map[string]bool  // providers that do not answer
	daemons  bool             // each virtual node has a pod of a DaemonSet
	made     int
	changes  int // of reservations
	grown    int
	fail     func(format string, args ...any)
}

func newWorld(t rapid.TB, s *api.VirtualNodePoolSpec, capacity map[string]int64) *world {
	return &world{
		Planner: planner(t, s), Observation: seen(nil), capacity: capacity, price: map[string]int64{},
		stubborn: map[string]bool{}, left: map[string]bool{}, away: map[string]bool{}, fail: t.Fatalf,
	}
}

func (w *world) provider(name string) *Provider {
	i := slices.IndexFunc(w.Providers, func(p Provider) bool { return p.Name == name })
	return &w.Providers[i]
}

// step lets some time pass, in which what was asked for is done, and does what the planner plans.
func (w *world) step(d time.Duration) *Plan {
	w.Now = w.Now.Add(d)
	for i := range w.Providers {
		p := &w.Providers[i]
		if p.State == Asked {
			p.State, p.Since, p.Labels = Ready, w.Now, labels
		}
		p.Changing, p.Lowered = false, p.Wish != nil
		if p.Wish.Equal(p.Reserved) {
			p.Wish, p.Lowered = nil, false
		}
	}
	for _, p := range slices.Clone(w.Providers) {
		if w.Now.After(p.Until) {
			w.end(p.Name)
		}
	}
	w.schedule()
	w.Answer = w.answer
	plan := w.Plan(w.Observation)
	if again := w.Plan(w.Observation); !slices.Equal(steps(again), steps(plan)) {
		w.fail("it plans %q, and then %q", steps(plan), steps(again))
	}
	for _, s := range plan.Steps {
		if plan.AllNotReady && s.Verb != Extend && s.Verb != Renew { // both keep what runs on a node that is Ready
			w.fail("%s at %s, and most virtual nodes are not Ready", s.Verb, s.Provider)
		}
		w.do(s, plan)
	}
	w.checkBounds()
	return plan
}

// live lets some time pass, at least a minute, in steps: an agent looks sooner than a plan's Again where that is late.
func (w *world) live(d time.Duration) {
	for _, part := range []time.Duration{7 * time.Second, 13 * time.Second, 17 * time.Second, d - 37*time.Second} {
		w.step(part)
	}
}

// settle lets an undisturbed hour pass, and then what the last plan began: it may just try growth again that did not
// help a pod before, and says nothing of others meanwhile.
func (w *world) settle() (plan *Plan) {
	for range 60 {
		plan = w.step(time.Minute)
	}
	for n := 0; len(plan.Steps) > 0 && n < 5; n++ {
		plan = w.step(time.Minute)
	}
	return plan
}

// schedule puts each Pending pod on the first Ready node with room. It binds no pod that is larger than each node of
// the provider: Kubernetes' scheduler does, and the pod then takes what others need (docs/burst.md).
func (w *world) schedule() {
	used := map[string]amounts.List{}
	for i := range w.Providers {
		w.startDaemon(&w.Providers[i])
	}
	for _, p := range w.Pods {
		used[p.Spec.NodeName] = used[p.Spec.NodeName].Plus(w.requests(p))
	}
	for _, p := range w.Pods {
		for _, n := range w.Providers {
			if p.Spec.NodeName == "" && !w.stubborn[p.Name] && n.State == Ready && w.hasNodeFor(p) &&
				n.size().Fits(used[n.Node].Plus(w.requests(p))) {
				on(n.Node)(p)
				used[n.Node] = used[n.Node].Plus(w.requests(p))
			}
		}
	}
}

// hasNodeFor reports whether a node of a provider is large enough for a pod.
func (w *world) hasNodeFor(p *corev1.Pod) bool {
	return w.nodeSize == 0 || w.requests(p).Of("cpu") <= w.nodeSize*1000
}

// startDaemon gives a new virtual node its pod of a DaemonSet.
func (w *world) startDaemon(provider *Provider) {
	has := slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == provider.Node })
	if w.daemons && !has && provider.State == Ready {
		w.made++
		w.Pods = append(w.Pods, pending(fmt.Sprintf("log-%d", w.made), 1, ofDaemonSet, on(provider.Node)))
	}
}

// makeAgain makes another pod instead of one, as a controller does.
func (w *world) makeAgain(pod *corev1.Pod) {
	w.made++
	next := pending(pod.Name, 1)
	next.UID, next.Labels, next.OwnerReferences = types.UID(fmt.Sprint(pod.Name, "-",
		w.made)), pod.Labels, pod.OwnerReferences
	next.Spec = pod.Spec
	next.Spec.NodeName, next.Status.Conditions[0].LastTransitionTime = "", metav1.NewTime(w.Now)
	*pod = *next
}

// end ends the reservation of a provider. Its pods are made again, but not those of DaemonSets.
func (w *world) end(name string) {
	p := *w.provider(name)
	w.Pods = slices.DeleteFunc(w.Pods, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == p.Node && kubeobject.ControllerKind(pod) == "DaemonSet"
	})
	for _, pod := range w.Pods {
		if pod.Spec.NodeName == p.Node {
			w.makeAgain(pod)
		}
	}
	w.capacity[name] += p.Reserved.Of("cpu") / 1000
	delete(w.left, name)
	w.Providers = slices.DeleteFunc(w.Providers, func(o Provider) bool { return o.Name == name })
}

// answer is the broker's.
func (w *world) answer(a Ask) Answer {
	out := &api.Fits{}
	for _, name := range []string{"bern", "milan", "oslo", "rome"} {
		cpu := min(w.capacity[name], a.Size.Of("cpu")/1000)
		price := w.price[name]
		if price > 0 && (a.MaxPrice == nil || price*cpu > nanos(a.MaxPrice)) || cpu == 0 || w.away[name] || a.Size.Of("memory") == 0 {
			continue
		}
		if a.Size.Of("nvidia.com/gpu") > 0 { // nobody has any
			continue
		}
		f, each := api.Fit{Cluster: name, Resources: resources(cpu, cpu)}, cpu
		if w.nodeSize > 0 {
			each = w.nodeSize
		}
		for _, s := range a.Pods {
			needs := max(s.Requests.Of("cpu"), 1)
			f.Pods = append(f.Pods, min(cpu*1000/needs, (w.capacity[name]/each)*(each*1000/needs)))
		}
		out.Clusters = append(out.Clusters, f)
	}
	return Answer{Fits: out}
}

// nanos is a price for an hour.
func nanos(p *api.Price) int64 {
	price, err := money.Parse("", p)
	if err != nil {
		panic(err)
	}
	return price.Nano
}

func (w *world) do(s Step, plan *Plan) {
	cost := w.price[s.Provider] * s.Size.Of("cpu") / 1000
	if s.Verb == Create || s.Verb == Resize {
		w.changes++
		if !w.Reached {
			w.fail("%s at %s without a broker", s.Verb, s.Provider)
		}
		if cost > nanos(s.MaxPrice) { // no plan is so cheap
			return
		}
	}
	pods := slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool {
		return s.Verb != Create && p.Spec.NodeName == w.provider(s.Provider).Node &&
			kubeobject.ControllerKind(p) != "DaemonSet"
	})
	switch s.Verb {
	case Create:
		w.grown++
		w.capacity[s.Provider] -= s.Size.Of("cpu") / 1000
		w.Providers = append(w.Providers, Provider{Name: s.Provider, Node: "node-" + s.Provider, State: Asked, Since: w.Now,
			Reserved: s.Size, Cost: cost, Created: w.Now, Until: w.Now.Add(w.duration)})
	case Resize:
		p := w.provider(s.Provider)
		if s.Size.Of("cpu") > p.Reserved.Of("cpu") {
			w.grown++
		}
		if !s.Size.Fits(plan.Used[p.Node]) {
			w.fail("%s becomes %v, and pods use %v", s.Provider, s.Size, plan.Used[p.Node])
		}
		w.capacity[s.Provider] += (p.Reserved.Of("cpu") - s.Size.Of("cpu")) / 1000
		p.Reserved, p.Cost, p.Changing = s.Size, cost, true
	case Extend:
		if w.Reached {
			w.provider(s.Provider).Until = s.Until
		}
	case Renew:
		p := w.provider(s.Provider)
		if !p.Ends || !s.Size.Fits(p.Reserved) {
			w.fail("%s of %v is reserved again: %v", s.Provider, p.Reserved, s.Size)
		}
		if cost <= nanos(s.MaxPrice) && w.capacity[s.Provider] >= s.Size.Of("cpu")/1000 {
			p.Until, p.Cost, p.Ends = w.Now.Add(w.duration), cost, false
		}
	case Lower:
		w.provider(s.Provider).Wish = s.Size
	case Restore:
		w.provider(s.Provider).Wish = nil
	case Clear, Release:
		p := w.provider(s.Provider)
		if len(s.Pods) > 0 { // their controllers make others
			for _, pod := range s.Pods {
				w.makeAgain(pod)
			}
			return
		}
		if len(p.Claims) > 0 && !p.GivenUp {
			w.fail("%s is released with volumes", s.Provider)
		}
		if pods && p.State == Ready && w.admits(p.Name) && p.Until.Sub(w.Now) > w.duration/4 {
			w.fail("%s is released with pods: %+v", s.Provider, plan)
		}
		w.changes++
		w.end(s.Provider)
	}
}

// part reports whether one provider may give what a pod requests.
func (w *world) part(p *corev1.Pod) bool { return part(w.max, 1, w.spread).Fits(w.requests(p)) }

// checkBounds checks that no more is reserved, or spent, than the spec allows: what leaves does not count.
func (w *world) checkBounds() {
	var sum amounts.List
	cost, counted := int64(0), 0
	for _, p := range w.Providers {
		if p.State != Ready && p.State != Asked || !w.admits(p.Name) || p.Until.Sub(w.Now) < w.duration/4 {
			w.left[p.Name] = true
		}
		if w.left[p.Name] {
			continue
		}
		counted++
		if most := part(w.max, 1, w.spread); w.spread > 1 && !most.Fits(p.Reserved) {
			w.fail("%s has %v, more than %v", p.Name, p.Reserved, most)
		}
		sum, cost = sum.Plus(p.Reserved), cost+p.Cost
	}
	if !w.max.Fits(sum) || cost > w.budget || counted > w.atMost {
		w.fail("%v is reserved for %d at %d providers, more than %v for %d at %d",
			sum, cost, counted, w.max, w.budget, w.atMost)
	}
}
