package vnp

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// planReplace ends providers that leave or are dead, once what runs there has room on virtual nodes that
// are Ready. A provider that holds volumes stays until an admin gives them up.
func (r *planning) planReplace() {
	rest := r.place(r.demandPods(), func(provider *Provider) bool { return provider.State == Ready })
	waits := idsOf(rest)
	r.moveUnplaced(waits)
	for _, provider := range r.providers {
		if provider.stays() {
			continue
		}
		if len(provider.Claims) > 0 && !provider.GivenUp {
			r.VolumesKeep = append(r.VolumesKeep, provider.Name)
			continue
		}
		if slices.ContainsFunc(r.on[provider.Node], func(p pod) bool { return waits[p.UID] }) || r.customersWait(&provider) {
			r.limit(WaitsForReservations, "the pods at %s wait for room elsewhere", provider.Name)
			continue
		}
		if r.isLate(provider.Name) && r.helps(&provider, rest) && r.hasLeft(append(r.late, provider)) { // no other was faster
			r.late = append(r.late, provider)
			r.limit(WaitsForReservations, "%s is not Ready yet", provider.Name)
			continue
		}
		if provider.State == Dead {
			r.clear(&provider)
			continue
		}
		r.do(Step{Verb: Release, Provider: provider.Name})
	}
}

// isLate reports whether a provider leaves because its virtual node is not Ready in time.
func (r *planning) isLate(name string) bool {
	return slices.ContainsFunc(r.o.Providers, func(p Provider) bool { return p.Name == name && p.State == Asked })
}

// helps reports whether the pool needs a provider that is late: for what is missing of min, or for a pod of rest.
func (r *planning) helps(late *Provider, rest []pod) bool {
	return r.admits(late.Name) && (len(r.min.Beyond(r.Reserved)) > 0 ||
		slices.ContainsFunc(rest, func(p pod) bool { return late.Reserved.Fits(p.requests) && r.mayRun(p.Pod, late) }))
}

// hasLeft reports whether the bounds of the pool hold with providers that are late: they cost as much as others.
func (r *planning) hasLeft(late []Provider) bool {
	size, cost := r.Reserved, int64(0)
	for _, provider := range late {
		size, cost = size.Plus(provider.Reserved), cost+provider.Cost
	}
	return r.max.Fits(size) && r.inUse()+len(late) <= r.atMost && r.budgetLeft(nil) >= cost
}

// customersWait reports whether a hub's customers run at a provider, and the virtual nodes that are Ready
// have not all that the hub keeps.
func (r *planning) customersWait(leaving *Provider) bool {
	var ready amounts.List
	for _, provider := range r.providers {
		if provider.State == Ready {
			ready = ready.Plus(provider.Reserved)
		}
	}
	return len(positive(leaving.Used)) > 0 && !ready.Fits(r.min)
}

// clear plans the end of a dead provider. Its pods go first: Liqo removes no virtual node while one waits
// for a pod that nobody confirms. Only a person knows of a pod of a StatefulSet, or with claims, that it
// ended: two of it could write the same data.
func (r *planning) clear(dead *Provider) {
	step, keep := Step{Verb: Clear, Provider: dead.Name}, []string(nil)
	for _, p := range r.o.Pods {
		owner := kubeobject.ControllerKind(p)
		// Liqo copies the label of a StatefulSet's pod from a hub's customer, and not its owner.
		sticky := owner == "StatefulSet" || p.Labels[appsv1.StatefulSetPodNameLabel] != ""
		claims := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
		switch {
		case p.Spec.NodeName != dead.Node || owner == "DaemonSet":
		case claims && !dead.GivenUp || sticky:
			keep = append(keep, p.Namespace+"/"+p.Name)
		default:
			step.Pods = append(step.Pods, p)
		}
	}
	if len(keep) > 0 {
		r.limit(PodsKeep, "%s is dead, and only you can find out whether these pods ended: %s. Once they did: "+
			"kubectl delete pod --force -n NAMESPACE NAME", dead.Name, strings.Join(keep[:min(len(keep), 10)], ", "))
	}
	if len(keep) == 0 || len(step.Pods) > 0 {
		r.do(step)
	}
}

// planShrink plans less once a quarter more than the demand is reserved for long enough: a provider
// without pods and volumes leaves, else one becomes smaller, in two steps. First its virtual node
// becomes smaller; once what runs there fits, the reservation does.
func (r *planning) planShrink() {
	busy := r.resizeLowered()
	// A provider that came back, or an edit, may have brought it beyond its bounds.
	beyond := !r.max.Fits(r.Reserved) || r.inUse() > r.atMost || r.budgetLeft(nil) < 0
	excess, needed := beyond, r.neededWithout("")
	for _, has := range r.Reserved {
		excess = excess || has.Value/5*4 > needed.Of(has.Resource)
	}
	if !excess {
		r.excess = time.Time{}
		return
	}
	if r.excess.IsZero() {
		r.excess = r.o.Now
	}
	if busy {
		return
	}
	if at := r.excess.Add(r.after); r.o.Now.Before(at) && !beyond {
		r.LookAgain(at)
		return
	}
	if !r.releaseIdle() {
		r.lowerOne()
	}
}

// resizeLowered ends what planShrink began: a virtual node that is smaller by now gets a smaller reservation, and one
// whose room is needed again gets it back. It reports whether the pool changes already, so that nothing else becomes
// smaller.
func (r *planning) resizeLowered() (busy bool) {
	busy = !r.o.Reached || slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Verb != Extend })
	for _, provider := range r.providers {
		switch {
		case provider.Wish == nil || !provider.stays():
			busy = busy || provider.Changing || !provider.stays() || provider.State == NotReady
			continue
		case provider.Changing: // pods that were bound to more room would be evicted once the provider agrees
		case !provider.Wish.Fits(r.Used[provider.Node]) || r.Limited != "" && r.hasRoom(&provider) ||
			provider.State != Ready || provider.Paused:
			r.do(Step{Verb: Restore, Provider: provider.Name})
		case provider.Lowered && r.o.Reached:
			most := r.priceOf(r.budgetLeft(r.find(provider.Name)))
			r.do(Step{Verb: Resize, Provider: provider.Name, Size: provider.Wish, MaxPrice: most})
		}
		busy = true
	}
	return busy
}

// hasRoom reports whether a pod without room fits on a virtual node that does not become smaller.
func (r *planning) hasRoom(provider *Provider) bool {
	free := provider.Reserved.Minus(r.Used[provider.Node])
	return slices.ContainsFunc(r.waiting, func(p pod) bool { return free.Fits(p.requests) && r.mayRun(p.Pod, provider) })
}

// releaseIdle ends the dearest provider without which enough is left, and reports whether there is one.
func (r *planning) releaseIdle() bool {
	var idle []Provider
	for _, provider := range r.providers {
		if provider.State == Ready && len(r.on[provider.Node]) == 0 && len(provider.Claims) == 0 &&
			r.Reserved.Minus(provider.Reserved).Fits(r.neededWithout(provider.Node)) {
			idle = append(idle, provider)
		}
	}
	if len(idle) == 0 {
		return false
	}
	first := slices.MinFunc(idle, func(a, b Provider) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), r.compareSize(b.Reserved, a.Reserved), cmp.Compare(a.Name, b.Name))
	})
	r.do(Step{Verb: Release, Provider: first.Name})
	return true
}

// lowerOne makes the virtual node with the largest free share smaller, by at least a tenth of a resource, and leaves
// at least a tenth of each.
func (r *planning) lowerOne() {
	var best Step
	var most amounts.List
	over := r.Reserved.Beyond(r.neededWithout(""))
	for _, provider := range r.providers {
		if provider.State != Ready || provider.Paused {
			continue
		}
		least := r.Used[provider.Node].Only(provider.Reserved).Max(part(provider.Reserved, 1, 10))
		size := provider.Reserved.Minus(over).Only(provider.Reserved).Max(least)
		gain := positive(provider.Reserved.Minus(size))
		if !slices.ContainsFunc(gain, func(g amounts.Amount) bool { return g.Value >= provider.Reserved.Of(g.Resource)/10 }) {
			continue
		}
		if best.Verb == "" || r.compareSize(gain, most) > 0 {
			best, most = Step{Verb: Lower, Provider: provider.Name, Size: size}, gain
		}
	}
	if best.Verb != "" {
		r.do(best)
	}
}
