package vnp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

const (
	// maxShapes is how many shapes of pods an ask counts.
	maxShapes = 8
	// maxAsks is how often the broker is asked for one plan, maxAlone for how many shapes alone, maxPages how
	// often for other clusters than those that it named.
	maxAsks, maxAlone, maxPages = 32, 8, 9
)

// growth is what an answer leads to: steps, or what keeps it from more.
type growth struct {
	*planning
	steps            []Step
	pods             []pod // that have no room yet
	least, left      amounts.List
	limited, message string
}

// search asks the broker for room for pods, and for what is missing of min, until an answer helps. It asks for all
// of them first. If that gives nothing, it asks for one pod of a shape, and shape by shape leaves out those that get
// nothing alone: a pod that cannot be served changes nothing for others.
func (r *planning) search(pods []pod, least, left amounts.List) {
	try := func(pods []pod, size, least amounts.List) *growth {
		return r.try(pods, size.Min(left), least, left)
	}
	all := sum(pods).Max(least)
	whole := try(pods, all.Max(part(r.Reserved, 1, 10).Only(all)), least)
	found := whole
	if len(found.steps) == 0 && len(least) > 0 && len(pods) > 0 {
		found = try(nil, least, least)
	}
	if len(found.steps) == 0 {
		found = r.searchAlone(pods, try)
	}
	if len(found.steps) == 0 {
		found = whole
	}
	if found.limited != "" {
		r.limit(found.limited, "%s", found.message)
	}
	if r.Steps = append(r.Steps, found.steps...); len(found.steps) == 0 {
		r.explain(len(pods))
	}
}

// searchAlone finds a shape of which one pod gets room, and then asks for as many pods as get room together.
func (r *planning) searchAlone(pods []pod, try func(pods []pod, size, least amounts.List) *growth) *growth {
	shapes := r.inTurn(groupByShape(pods))
	none := map[string]bool{} // shapes that get nothing
	for i, shape := range shapes {
		if i == maxAlone || len(r.Asks) >= maxAsks {
			r.tried = max(1, i-2)
			r.LookAgain(r.o.Now.Add(time.Second)) // for the next shapes
			break
		}
		alone := try(shape, shape[0].requests, nil)
		if len(alone.steps) == 0 {
			none[shape[0].shape] = true
			continue
		}
		more := slices.Clone(shape)
		for _, other := range shapes {
			if key := other[0].shape; key != shape[0].shape && !none[key] {
				more = append(more, other...)
			}
		}
		for n := len(more); n > 1; n = (n + 1) / 2 {
			if n == len(pods) { // that was the first ask
				continue
			}
			if some := try(more[:n], sum(more[:n]), nil); len(some.steps) > 0 {
				return some
			}
		}
		return alone
	}
	return &growth{planning: r}
}

// groupByShape returns the pods of each shape, in order.
func groupByShape(pods []pod) (groups [][]pod) {
	index := map[string]int{}
	for _, pod := range pods {
		i, known := index[pod.shape]
		if !known {
			i, index[pod.shape] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], pod)
	}
	return groups
}

// inTurn returns the largest shape first, then the smallest, then the others. If there are more than a plan tries, the
// next plan begins with those that this one leaves out: however often a pool is planned, each shape gets its turn.
func (r *planning) inTurn(shapes [][]pod) [][]pod {
	if len(shapes) < 3 {
		return shapes
	}
	last := len(shapes) - 1
	rest := shapes[1:last]
	if r.o.Now.After(r.turned) { // the same at the same time
		r.turn, r.turned, r.tried = r.turn+r.tried, r.o.Now, 0
	}
	from := r.turn % len(rest)
	return slices.Concat([][]pod{shapes[0], shapes[last]}, rest[from:], rest[:from])
}

// try asks the broker for a size, and plans what the answer gives to pods and least.
func (r *planning) try(pods []pod, size, least, left amounts.List) (g *growth) {
	ask := Ask{Size: positive(size), MaxPrice: r.priceOf(r.budgetLeft(nil))}
	shapes := groupByShape(pods)
	for _, shape := range shapes[:min(len(shapes), maxShapes)] {
		ask.Pods = append(ask.Pods, Shape{shape[0].requests, int64(len(shape))})
	}
	for range maxPages {
		g = &growth{planning: r, pods: pods, least: least, left: left}
		if r.silent || len(r.Asks) >= maxAsks {
			return g
		}
		r.Asks = append(r.Asks, ask)
		if r.o.Answer == nil {
			r.silent = true
			return g
		}
		answer := r.o.Answer(ask)
		if r.answer = answer; answer.Fits == nil {
			r.silent = true
			return g
		}
		usable := r.order(answer.Fits.Clusters)
		for _, fit := range usable {
			g.growAt(fit, shapes, answer.Architectures[fit.Cluster])
		}
		if len(g.steps) > 0 || !answer.More || len(usable) > 0 && len(shapes) > 1 {
			return g
		}
		ask.Without = slices.Concat(ask.Without, answer.Named)
	}
	return g
}

// explain says why nothing grows.
func (r *planning) explain(pods int) {
	why := r.answer.Why
	if why != "" {
		why = "; " + why
	}
	switch {
	case r.o.Answer == nil:
	case r.answer.Fits == nil:
		r.limit(BrokerUnavailable, "the broker does not say what fits%s", why)
	case r.budget > 0 && r.budgetLeft(nil) <= 0:
		r.limit(LimitedByMaxPrice, "all of maxPrice is spent")
	case r.answer.TooFar && len(r.answer.Fits.Clusters) == 0:
		r.limit(TooFar, "the providers that have room are farther than maxLatency")
	case pods == 0:
		r.limit(NoCandidate, "%s has room for what is missing of min%s", r.noProvider(), why)
	default:
		r.limit(NoCandidate, "%s has room for %d more pods%s", r.noProvider(), pods, why)
	}
}

// noProvider begins the sentence that no provider has room. It names those that have, and are not Ready in time.
func (r *planning) noProvider() string {
	var late []string
	for _, provider := range r.providers {
		if !provider.stays() && r.isLate(provider.Name) && r.admits(provider.Name) {
			late = append(late, provider.Name)
		}
	}
	if len(late) == 0 {
		return "no provider"
	}
	return "waits for " + strings.Join(late, ", ") + ", not Ready yet; no other provider"
}

// growAt plans more at one provider: what pods take that have no room yet, or what is missing of min.
func (g *growth) growAt(fit *api.Fit, shapes [][]pod, architecture string) {
	has := g.find(fit.Cluster)
	could, err := amounts.ParseCapacity("fits", fit.Resources)
	if err != nil || len(g.pods) == 0 && len(g.least) == 0 {
		return
	}
	if has == nil && g.inUse() >= g.atMost {
		g.setLimit(LimitedByAtMost, "it may use %d providers at once (providers.atMost)", g.atMost)
		return
	}
	creates := slices.ContainsFunc(g.steps, func(s Step) bool { return s.Verb == Create })
	if has == nil && creates || g.budget > 0 && len(g.steps) > 0 {
		return // one at a time
	}
	head := could.Min(g.left)
	var reserved amounts.List
	if has != nil {
		reserved = has.Reserved
	}
	if most := part(g.max, 1, g.spread).Minus(reserved); g.spread > 1 {
		if !most.Fits(smallest(g.pods)) {
			g.setLimit(LimitedBySpread, "%s may get no more than 1/%d of max (providers.spread)", fit.Cluster, g.spread)
		}
		head = head.Min(most)
	}
	provider := has
	if provider == nil {
		provider = g.newAt(architecture)
	}
	size, rest := g.take(fit, shapes, provider, head)
	taken := len(rest) < len(g.pods)
	size = size.Max(g.least.Min(head))
	if !taken && len(positive(size)) == 0 {
		return
	}
	size = positive(size.Max(part(g.Reserved, 1, 10).Min(head).Only(size)))
	step := Step{Verb: Create, Provider: fit.Cluster, Size: size, MaxPrice: g.priceOf(g.budgetLeft(has))}
	if has != nil {
		step.Verb, step.Size = Resize, reserved.Plus(size)
	}
	g.steps = append(g.steps, step)
	g.pods, g.least, g.left = rest, g.least.Beyond(size), g.left.Minus(size)
}

// take returns what pods take of head at a provider, and the pods that are left.
func (g *growth) take(fit *api.Fit, shapes [][]pod, provider *Provider,
	head amounts.List) (size amounts.List, rest []pod) {
	room := map[string]int64{}
	for i, n := range fit.Pods[:min(len(fit.Pods), len(shapes))] {
		room[shapes[i][0].shape] = n
	}
	rest = slices.DeleteFunc(slices.Clone(g.pods), func(pod pod) bool {
		next := size.Plus(pod.requests)
		if room[pod.shape] <= 0 || !head.Fits(next) || !g.mayRun(pod.Pod, provider) {
			return false
		}
		size, room[pod.shape] = next, room[pod.shape]-1
		return true
	})
	return size, rest
}

// setLimit records the first reason for which an answer does not help all pods.
func (g *growth) setLimit(reason, format string, args ...any) {
	if g.limited == "" {
		g.limited, g.message = reason, fmt.Sprintf(format, args...)
	}
}
