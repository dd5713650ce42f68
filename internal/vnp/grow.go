package vnp

import (
	"cmp"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Reasons for which demand is not met.
const (
	LimitedByMax         = "Max"
	LimitedByMaxPrice    = "MaxPrice"
	LimitedByAtMost      = "AtMost"
	LimitedBySpread      = "Spread"
	CapReached           = "CapReached"
	NoCandidate          = "NoCandidate"
	PodsKeep             = "PodsKeep"
	TooFar               = "TooFar"
	BrokerUnavailable    = "BrokerUnavailable"
	WaitsForReservations = "Waiting"
)

// place puts pods into what is free on the virtual nodes for which use returns true, and returns
// those for which there is no room.
func (r *planning) place(pods []pod, use func(*Provider) bool) (rest []pod) {
	type room struct {
		provider *Provider
		free     amounts.List
	}
	var rooms []room
	for i := range r.providers {
		if provider := &r.providers[i]; use(provider) {
			rooms = append(rooms, room{provider, provider.size().Minus(r.Used[provider.Node])})
		}
	}
	for _, pod := range pods {
		i := slices.IndexFunc(rooms, func(in room) bool {
			return in.free.Fits(pod.requests) && r.mayRun(pod.Pod, in.provider)
		})
		if i < 0 {
			rest = append(rest, pod)
			continue
		}
		rooms[i].free = rooms[i].free.Minus(pod.requests)
	}
	return rest
}

// size is what pods may use of a provider.
func (p *Provider) size() amounts.List {
	if p.Wish != nil {
		return p.Wish
	}
	return p.Reserved
}

// demandPods returns the pods that need room on virtual nodes that stay: those that count, those
// on virtual nodes that leave, and those that their provider cannot place. Volumes hold pods where they are.
func (r *planning) demandPods() []pod {
	all := slices.Clone(r.count)
	for _, provider := range r.providers {
		for _, p := range r.on[provider.Node] {
			if r.volumesAt(p.Pod) == "" && (!provider.stays() || r.moves(p.Pod)) {
				all = append(all, p)
			}
		}
	}
	r.sortBySize(all)
	return all
}

// planGrow plans more for the pods that have no room, and for min. It asks the broker first what fits.
func (r *planning) planGrow() {
	r.waiting = r.place(r.demandPods(), func(provider *Provider) bool {
		return provider.State == Ready || provider.State == Asked
	})
	r.placed = r.sumPlaced()
	rest := r.waiting
	least := r.min.Beyond(r.Reserved)
	if len(rest) == 0 && len(least) == 0 {
		return
	}
	left := r.max.Minus(r.Reserved)
	fitting := slices.DeleteFunc(slices.Clone(rest), func(pod pod) bool { return !left.Fits(pod.requests) })
	if len(fitting) < len(rest) {
		r.limit(LimitedByMax, "max leaves no room for %d more pods", len(rest)-len(fitting))
	}
	if len(fitting) == 0 && len(least) == 0 {
		return
	}
	for _, provider := range r.providers {
		// one at a time: it may be enough
		if provider.stays() && (provider.State == Asked || provider.Changing || provider.Capped != "") {
			if provider.Capped != "" {
				r.limit(CapReached, "%s", provider.Capped)
			}
			r.limit(WaitsForReservations, "waits for provider %s", provider.Name)
			return
		}
	}
	if !r.o.Reached {
		r.limit(BrokerUnavailable, "no broker answers")
		return
	}
	r.search(fitting, least, left)
}

// order returns the clusters of a broker's answer that may serve the pool: those in use first.
func (r *planning) order(clusters []api.Fit) (fits []*api.Fit) {
	for i := range clusters {
		fit := &clusters[i]
		has := r.find(fit.Cluster)
		usable := has == nil || has.State == Ready && has.Wish == nil && !slices.ContainsFunc(r.on[has.Node],
			func(p pod) bool { return r.unplaced(p.Pod) })
		if usable && r.admits(fit.Cluster) && !slices.Contains(r.o.Avoid, fit.Cluster) {
			fits = append(fits, fit)
		}
	}
	used := func(f *api.Fit) int {
		if r.find(f.Cluster) != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(fits, func(a, b *api.Fit) int { return cmp.Compare(used(a), used(b)) })
	return fits
}

func (r *planning) find(name string) *Provider {
	i := slices.IndexFunc(r.providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &r.providers[i]
}

// inUse counts the providers that stay.
func (r *planning) inUse() (n int) {
	for i := range r.providers {
		if r.providers[i].stays() {
			n++
		}
	}
	return n
}

// budgetLeft is what the providers that stay leave of maxPrice, without the cost of one. It may be
// negative.
func (r *planning) budgetLeft(without *Provider) int64 {
	left := r.budget
	for i := range r.providers {
		if provider := &r.providers[i]; provider.stays() && (without == nil || provider.Name != without.Name) {
			left -= provider.Cost
		}
	}
	return left
}

// positive keeps what is more than 0.
func positive(a amounts.List) amounts.List { return a.Beyond(nil) }

// smallest returns what the smallest pod requests; pods are sorted.
func smallest(pods []pod) amounts.List {
	if len(pods) == 0 {
		return nil
	}
	return pods[len(pods)-1].requests
}
