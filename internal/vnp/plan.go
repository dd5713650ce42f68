package vnp

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/money"
)

// Planner plans for one pool. It remembers since when things are as they are.
type Planner struct {
	min, max          amounts.List
	price             money.Price
	budget            int64 // for an hour, in billionths of the currency's unit
	pendingFor, after time.Duration
	duration          time.Duration
	atMost            int
	spread            int64
	spec              *api.VirtualNodePoolSpec

	failed map[types.UID]mark   // pods that growth did not help
	room   map[string]roomSince // by node
	moved  map[string]time.Time // when pods were last moved off a node that did not place them
	excess time.Time            // since when more than needed is reserved; zero: it is not

	reached time.Time // since when a broker answers; zero: none does

	turn   int       // how many shapes had their turn, see inTurn
	turned time.Time // when turn was last set
	tried  int       // shapes that the plan at that time tried before it stopped, besides the two that come first
}

// roomSince is since when a node has had at least some room.
type roomSince struct {
	at   time.Time
	free amounts.List
}

const (
	// deadAfter is the default of Observation.DeadAfter: Kubernetes deletes the pods after five minutes.
	deadAfter = 3 * time.Minute
	// askedFor is how long a reservation may take until its virtual node is Ready.
	askedFor = 5 * time.Minute
	// answersWithin is how long a broker that is back has to extend what it could not extend before.
	answersWithin = 5 * time.Minute
	// fewProviders is the default of atMost.
	fewProviders = 8
)

// New returns a planner for a spec. Errors: Invalid, with the field.
func New(spec *api.VirtualNodePoolSpec) (*Planner, error) {
	p := &Planner{spec: spec, failed: map[types.UID]mark{}, room: map[string]roomSince{}, moved: map[string]time.Time{}}
	return p, p.Update(spec)
}

// Update gives a planner another spec. Errors: Invalid, with the field; the planner is then as it was.
func (p *Planner) Update(spec *api.VirtualNodePoolSpec) (err error) {
	next := *p
	next.spec = spec
	if next.max, err = amounts.ParseRequest("max", spec.Max); err != nil {
		return err
	}
	if next.min, err = amounts.ParseCapacity("min", spec.Min); err != nil {
		return err
	}
	if err := cmp.Or(amounts.CheckWhole("max", spec.Max), amounts.CheckWhole("min", spec.Min)); err != nil {
		return err
	}
	for _, least := range next.min {
		if next.max.Of(least.Resource) < least.Value {
			return api.Invalid("min."+least.Resource, "it is more than max").Fix("raise max.%s, or lower min", least.Resource)
		}
	}
	if next.price, err = money.Parse("maxPrice", spec.MaxPrice); err != nil {
		return err
	}
	next.budget = next.price.Nanos(1, money.RatesFor(time.Unix(0, 0), time.Hour))
	next.pendingFor = durationOr(spec.PendingFor, 30*time.Second)
	next.after = durationOr(spec.ScaleDownAfter, 10*time.Minute)
	next.duration = api.DurationOf(spec.Template.Duration)
	next.atMost = int(cmp.Or(spec.Providers.AtMost, fewProviders))
	next.spread = int64(cmp.Or(spec.Providers.Spread, 1))
	*p = next
	return nil
}

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil || d.Duration <= 0 {
		return otherwise
	}
	return d.Duration
}

// Plan returns the next steps. It changes nothing but what the planner remembers.
func (p *Planner) Plan(o Observation) *Plan {
	r := &planning{Planner: p, o: &o, Plan: &Plan{Used: map[string]amounts.List{}}, on: map[string][]pod{},
		daemons: map[string]amounts.List{}}
	r.markLeaving()
	r.Plan.Providers = r.providers
	r.countPods()
	r.noteUnplaced()
	r.dropUnhelped()
	r.Counted += len(r.count)
	for _, provider := range r.providers {
		if provider.stays() {
			r.Reserved = r.Reserved.Plus(provider.Reserved)
		}
	}
	r.Demand = r.usedWithout("").Plus(sum(r.count)).Max(p.min)
	if p.spec.Demand == api.DemandFixed {
		r.Demand, r.count = p.min, nil
	}
	r.planExtend()
	if r.AllNotReady {
		r.limit(api.ConditionAllNotReady, "most virtual nodes are not Ready: this cluster is probably cut off")
		p.excess = time.Time{}
		return r.Plan
	}
	r.planGrow()
	r.planReplace()
	r.planShrink()
	for _, provider := range r.late { // it leaves only if another is faster
		r.find(provider.Name).State = Asked
	}
	return r.Plan
}

// planning is the making of one plan.
type planning struct {
	*Planner
	*Plan
	o         *Observation
	providers []Provider       // by name, with those that must be replaced marked so
	count     []pod            // Pending pods that count, largest first
	waiting   []pod            // pods for which no virtual node has room, also none that was asked for
	placed    amounts.List     // what those of count request that are not among waiting
	on        map[string][]pod // pods by node, without those of DaemonSets
	// daemons are what pods of DaemonSets request, by node. Their provider counts them as any other pod.
	daemons map[string]amounts.List
	late    []Provider // that are not Ready in time, and kept
	answer  Answer     // the broker's last one
	silent  bool       // the broker does not answer
}

// limit records the first reason for which demand is not met.
func (r *planning) limit(reason, format string, args ...any) {
	if r.Limited == "" {
		r.Limited, r.Message = reason, fmt.Sprintf(format, args...)
	}
}

// do adds a step.
func (r *planning) do(s Step) { r.Steps = append(r.Steps, s) }

func sum(pods []pod) (all amounts.List) {
	for _, pod := range pods {
		all = all.Plus(pod.requests)
	}
	return all
}

// usedWithout returns what runs on the virtual nodes, without what would end with one of them: its DaemonSets' pods.
func (r *planning) usedWithout(node string) (used amounts.List) {
	for _, provider := range r.providers {
		if used = used.Plus(r.Used[provider.Node]); provider.Node == node {
			used = used.Minus(r.daemons[node])
		}
		for _, p := range r.on[provider.Node] {
			if provider.stays() && r.moves(p.Pod) { // it needs room elsewhere, and until then takes some here
				used = used.Plus(p.requests)
			}
		}
	}
	return used
}

// neededWithout returns what must be reserved once a node is gone: empty if none goes. Pods for which no node
// has room do not keep what is reserved: it does not help them.
func (r *planning) neededWithout(node string) amounts.List {
	if r.spec.Demand == api.DemandFixed {
		return r.min
	}
	return r.usedWithout(node).Plus(r.placed).Max(r.min)
}

// sumPlaced returns what the Pending pods request that have room.
func (r *planning) sumPlaced() (all amounts.List) {
	waits := idsOf(r.waiting)
	for _, pod := range r.count {
		if !waits[pod.UID] {
			all = all.Plus(pod.requests)
		}
	}
	return all
}

// idsOf returns the set of pods.
func idsOf(pods []pod) map[types.UID]bool {
	ids := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		ids[pod.UID] = true
	}
	return ids
}

// stays reports whether a provider counts for the size of the pool.
func (p *Provider) stays() bool { return p.State != Leaving && p.State != Dead }

// markLeaving sorts the providers, and marks those that must be replaced.
func (r *planning) markLeaving() {
	r.providers = slices.Clone(r.o.Providers)
	slices.SortFunc(r.providers, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	if !r.o.Reached {
		r.reached = time.Time{}
	} else if r.reached.IsZero() {
		r.reached = r.o.Now
	}
	unready, nodes := 0, 0
	for _, provider := range r.providers {
		if provider.State != Asked {
			nodes++
		}
		if provider.State == NotReady {
			unready++
		}
		if provider.Drifted || provider.Unmet {
			r.Drifted = append(r.Drifted, provider.Name)
		}
	}
	r.AllNotReady = unready > 0 && (nodes > 1 && unready*2 > nodes || !r.o.Reached && unready == nodes)
	if r.spec.Replace == api.ReplaceNever {
		return
	}
	for i := range r.providers {
		r.markToReplace(&r.providers[i])
	}
}

// markToReplace marks a provider that must be replaced.
func (r *planning) markToReplace(provider *Provider) {
	left := provider.Until.Sub(r.o.Now)
	switch provider.State {
	case NotReady:
		if !r.AllNotReady {
			r.mark(provider, Dead, provider.Since.Add(cmp.Or(r.o.DeadAfter, deadAfter)))
		}
	case Asked:
		if r.o.Reached {
			r.mark(provider, Leaving, provider.Since.Add(askedFor))
		}
	case Ready:
		switch {
		case r.ousted(provider) && left <= r.duration/2, !r.admits(provider.Name):
			provider.State = Leaving
		case !provider.Until.IsZero() && left < r.duration/4 && r.o.Reached:
			r.mark(provider, Leaving, r.reached.Add(answersWithin))
		}
	}
}

// ousted reports whether a provider is replaced at its extension, because of what a broker says. Earlier, a
// broker's word moves no pod.
func (r *planning) ousted(provider *Provider) bool {
	return provider.Disabled || provider.Unmet && r.spec.Replace == api.ReplaceOnDrift
}

// mark gives a provider a state once it is time.
func (r *planning) mark(provider *Provider, state State, at time.Time) {
	if r.o.Now.Before(at) {
		r.LookAgain(at)
		return
	}
	provider.State = state
}

// admits reports whether the spec lets a provider serve the pool.
func (p *Planner) admits(name string) bool { return p.spec.Providers.Admits(name) }

// planExtend plans the extensions of reservations with less than half of their time left.
func (r *planning) planExtend() {
	for _, provider := range r.providers {
		if provider.Until.IsZero() || provider.State == Dead || !provider.stays() && len(r.on[provider.Node]) == 0 {
			continue
		}
		left := provider.Until.Sub(r.o.Now)
		if left > r.duration/2 {
			r.LookAgain(provider.Until.Add(-r.duration / 2))
			continue
		}
		until := r.o.Now.Add(r.duration)
		if r.ousted(&provider) && provider.State == Leaving { // it lasts for as long as what runs there needs to move
			if left > r.duration/8 {
				r.LookAgain(provider.Until.Add(-r.duration / 8))
				continue
			}
			until = r.o.Now.Add(r.duration / 4)
		} else {
			r.warn(&provider, left)
		}
		switch {
		case provider.Changing:
		case !provider.Ends:
			r.do(Step{Verb: Extend, Provider: provider.Name, Until: until})
		case provider.State == Ready && provider.Wish == nil && r.o.Reached && !slices.Contains(r.o.Avoid, provider.Name):
			most := r.priceOf(r.budgetLeft(&provider))
			r.do(Step{Verb: Renew, Provider: provider.Name, Size: provider.Reserved, MaxPrice: most})
		}
	}
}

// warn notes that a reservation is not extended, and how much of its time is left: a half, a quarter, an
// eighth.
func (r *planning) warn(provider *Provider, left time.Duration) {
	for _, part := range []struct {
		left time.Duration
		text string
	}{
		{r.duration / 8, "less than an eighth"}, {r.duration / 4, "less than a quarter"},
		{r.duration/2 - min(answersWithin, r.duration/8), "less than half"},
	} {
		if left < part.left {
			r.NotExtended = append(r.NotExtended, fmt.Sprintf("%s (%s of its time is left)", provider.Name, part.text))
			return
		}
		r.LookAgain(provider.Until.Add(-part.left + time.Second))
	}
}

// LookAgain sets when to plan again, if that is earlier.
func (out *Plan) LookAgain(at time.Time) {
	if out.Again.IsZero() || at.Before(out.Again) {
		out.Again = at
	}
}

// priceOf returns an amount for an hour as a price, nil for 0.
func (p *Planner) priceOf(nanos int64) *api.Price {
	if nanos <= 0 {
		return nil
	}
	amount := strings.TrimRight(big.NewRat(nanos, 1_000_000_000).FloatString(9), "0")
	return &api.Price{Amount: strings.TrimSuffix(amount, "."), Currency: p.price.Currency, Period: api.PeriodHour}
}

// part returns the part a/b of amounts, rounded down.
func part(of amounts.List, a, b int64) amounts.List {
	out := slices.Clone(of)
	for i := range out {
		out[i].Value = out[i].Value/b*a + out[i].Value%b*a/b
	}
	return out
}
