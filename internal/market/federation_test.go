package market_test

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// federation is a broker's market and the gates of its providers, to which anything happens in any
// order: late, twice, from the wrong side, before a crash.
type federation struct {
	t      *rapid.T
	now    market.Time
	broker *node
	gates  map[string]*node
	// lives are what each market remembers of each reservation, to see that it only moves on as allowed.
	lives map[*node]map[string]market.Reservation
	// said is the newest sequence of each provider, listed what its gate held at some time, for lags.
	said   map[string]int64
	listed map[string][]map[string]api.AccountUse
	// signed are all offers that were ever made, by digest; versions counts them.
	signed   map[string]*market.Offer
	versions int64
	serial   int
	// torn says that a backup was put back, perhaps between two events of one command.
	torn bool
}

var (
	providers = []string{"rome", "milan", "turin"}
	clusters  = []string{"rome", "milan", "turin", "paris", "lyon"}
)

func newFederation(t *rapid.T) *federation {
	f := &federation{t: t, now: market.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), broker: newNode(t, ""),
		gates: map[string]*node{}, lives: map[*node]map[string]market.Reservation{},
		said: map[string]int64{}, listed: map[string][]map[string]api.AccountUse{}, signed: map[string]*market.Offer{}}
	for _, p := range clusters {
		f.gates[p] = newNode(t, p)
	}
	for _, c := range clusters {
		f.broker.apply(market.Event{Time: f.now, Member: &market.Member{Cluster: c,
			State: api.MemberActive, Key: "k-" + c, Joined: f.now}})
	}
	for _, p := range providers {
		f.advertise(p)
	}
	return f
}

// do carries out a command, repeats it, and checks that what it changed it was allowed to change.
func (f *federation) do(n *node, c market.Command) (market.Outcome, error) {
	before, unsold := available(n), left(n)
	out, err := n.do(c, f.now)
	f.lived(n, c)
	f.sold(n, c, unsold)
	for key, after := range available(n) {
		if was := before[key]; after < 0 && after < was && !adopts(c) {
			f.t.Fatalf("%T took %s from %d to %d", c, key, was, after)
		}
	}
	if _, time := c.(market.Tick); time {
		return out, err
	}
	repeat, again := n.do(c, f.now)
	if len(repeat.Events) > 0 {
		f.t.Fatalf("%T repeated: %s", c, dump(repeat.Events))
	}
	if again != nil && api.CodeOf(again) == api.CodeInternal {
		f.t.Fatalf("%T repeated: no clear error: %v", c, again)
	}
	return out, err
}

func adopts(c market.Command) bool {
	if _, ok := c.(market.Adopt); ok {
		return true
	}
	a, ok := c.(market.Admit)
	return ok && a.Adopt
}

// available is what is left of each resource of each provider.
func available(n *node) map[string]int64 {
	out := map[string]int64{}
	n.view = n.state.Publish(n.view)
	for i := range n.view.Len() {
		for _, pool := range n.view.At(i).Pools {
			for _, a := range pool.Available {
				out[n.view.At(i).Cluster+"/"+pool.Name+"/"+a.Resource] = a.Value
			}
		}
	}
	return out
}

// pass lets everything happen that is due.
func (f *federation) pass(n *node) {
	for {
		out, err := f.do(n, market.Tick{})
		if err != nil {
			f.t.Fatal(err)
		}
		if len(out.Events) == 0 {
			break
		}
	}
	for _, r := range n.state.All() {
		if r.State != api.Releasing && f.now >= latest(r) {
			f.t.Fatalf("at %d nothing is due, but %s waits: %s", f.now, r.ID, dump(r))
		}
	}
}

// latest is how long a reservation may stay as it is, in any market.
func latest(r *market.Reservation) market.Time {
	after := func(t market.Time, d time.Duration) market.Time { return t + market.Time(d.Milliseconds()) }
	switch {
	case r.State.Over():
		return after(r.Changed, market.Retention)
	case r.State == api.Pending:
		return after(r.WaitUntil, market.DecideTime)
	case r.State == api.Held:
		return after(max(r.HeldUntil, r.ApproveBy), market.DecideTime)
	}
	if r.Changing() != nil { // which a gate may have promised to last longer
		return after(max(r.Until, r.Change.Until), market.SkewGrace)
	}
	return after(r.Until, market.SkewGrace)
}

// commitments are what a gate holds for others, by consumer.
func commitments(gate *node) map[string]api.AccountUse {
	out := map[string]api.AccountUse{}
	for _, r := range gate.state.All() {
		if r.Provider != gate.state.Self || !r.State.Counts() {
			continue
		}
		if out[r.Consumer].Commitments == nil {
			out[r.Consumer] = api.AccountUse{Commitments: map[string]api.Resources{}}
		}
		out[r.Consumer].Commitments[r.ID] = r.Usage().Resources()
	}
	return out
}

// advertise measures a provider again. Its gate gets the measurement. The broker gets it with commitments that
// may be old, and with use that may exceed them.
func (f *federation) advertise(provider string) {
	gate := f.gates[provider]
	f.listed[provider] = append(f.listed[provider], commitments(gate))
	all := api.Resources{}
	for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
		if !f.rarely("nothing") {
			all[resourceName(name)] = quantity(rapid.SampledFrom([]int64{12, 6, 3, 0}).Draw(f.t, name))
		}
	}
	pool := api.Pool{Allocatable: all, Shared: all,
		Allocated: resources("cpu", rapid.SampledFrom([]string{"0", "1", "500m", "0", "20"}).Draw(f.t, "allocated"))}
	m := api.Measurement{Pools: map[string]api.Pool{"general": pool}}
	if !f.rarely("withdraws") {
		m.Terms = &api.Terms{}
		if f.rarely("limits") {
			m.Terms.MaxPerConsumer = resources("cpu", "6")
		}
		if f.rarely("by hand") || f.rarely("by hand, too") {
			m.Terms.ApproveWithin = &metav1.Duration{Duration: rapid.SampledFrom([]time.Duration{time.Minute,
				2 * time.Hour, market.MaxApproval}).Draw(f.t, "within")}
		}
	}
	if !f.rarely("the same again") {
		f.said[provider]++
	}
	m.Sequence = api.Sequence{Incarnation: 1, Number: f.said[provider]}
	f.observe(gate, provider, m)
	lag := rapid.IntRange(0, min(3, len(f.listed[provider])-1)).Draw(f.t, "lag")
	pool.Accounts = maps.Clone(f.listed[provider][len(f.listed[provider])-1-lag])
	for _, consumer := range rapid.SliceOfN(rapid.SampledFrom(clusters), 0, 2).Draw(f.t, "users") {
		use := pool.Accounts[consumer]
		use.Used = resources("cpu", "3", "pods", "7")
		pool.Accounts[consumer] = use
	}
	m.Pools["general"] = pool
	f.observe(f.broker, provider, m)
}

func (f *federation) observe(n *node, provider string, m api.Measurement) {
	measured, err := market.Measure(m)
	if err != nil {
		return // number 0
	}
	if err := n.observe(provider, measured, f.now); err == nil {
		f.reckon(n, provider, m)
	}
}

// reckon compares what is reserved of a provider with the formula, worked out the slow way.
func (f *federation) reckon(n *node, provider string, m api.Measurement) {
	union := map[string]map[string]map[string]int64{} // consumer, reservation, resource
	take := func(consumer, id, resource string, v int64) {
		if union[consumer] == nil {
			union[consumer] = map[string]map[string]int64{}
		}
		if union[consumer][id] == nil {
			union[consumer][id] = map[string]int64{}
		}
		union[consumer][id][resource] = max(union[consumer][id][resource], v)
	}
	for _, r := range n.state.All() {
		if r.Provider == provider && r.State.Counts() {
			for _, a := range r.Usage() {
				take(r.Consumer, r.ID, a.Resource, a.Value)
			}
		}
	}
	pool := m.Pools["general"]
	used := map[string]map[string]int64{}
	for consumer, account := range pool.Accounts {
		for id, size := range account.Commitments {
			for name, q := range size {
				take(consumer, id, string(name), whole(name, q))
			}
		}
		used[consumer] = map[string]int64{}
		for name, q := range account.Used {
			if _, shared := pool.Shared[name]; shared {
				used[consumer][string(name)] = whole(name, q)
			}
		}
	}
	want := map[string]int64{}
	for _, consumer := range clusters {
		for _, name := range []string{"cpu", "memory", "nvidia.com/gpu", "pods"} {
			sum := int64(0)
			for _, size := range union[consumer] {
				sum += size[name]
			}
			want[name] += max(sum, used[consumer][name])
		}
	}
	listing := n.pool(provider)
	for name, reserved := range want {
		if listing.Reserved.Of(name) != reserved {
			f.t.Fatalf("%s: %d %s are reserved, want %d: %s", provider, listing.Reserved.Of(name), name, reserved, dump(listing))
		}
		q, shared := pool.Shared[resourceName(name)]
		offered := int64(0)
		if shared {
			free := whole(resourceName(name), pool.Allocatable[resourceName(name)]) - whole(resourceName(name),
				pool.Allocated[resourceName(name)])
			offered = min(whole(resourceName(name), q), free)
		}
		if listing.Available.Of(name) != offered-reserved {
			f.t.Fatalf("%s: %d %s are available, want %d: %s", provider,
				listing.Available.Of(name), name, offered-reserved, dump(listing))
		}
	}
}

// some draws a reservation that a market knows, or one that nobody does.
func (f *federation) some(n *node) *market.Reservation {
	all := n.state.All()
	all = append(all, &market.Reservation{
		ID: "nobody", State: api.Held, Consumer: "paris", Provider: "rome", Pool: "general", Generation: 1, HeldUntil: f.now +
			1, Until: f.now + 2})
	return rapid.SampledFrom(all).Draw(f.t, "reservation")
}

func (f *federation) cluster() string { return rapid.SampledFrom(clusters).Draw(f.t, "cluster") }

// party draws a cluster: mostly the right one.
func (f *federation) party(right string) string {
	if right != "" && !f.rarely("wrong party") {
		return right
	}
	return f.cluster()
}

// generation draws a generation: mostly the right one.
func (f *federation) generation(r *market.Reservation) int64 {
	if f.rarely("wrong generation") {
		return max(1, r.Generation+rapid.Int64Range(-1, 1).Draw(f.t, "off"))
	}
	return r.Generation
}

func (f *federation) assignment(r *market.Reservation) api.Assignment {
	a := market.AssignmentOf(r, "ck", "pk")
	a.Provider, a.Generation = f.party(r.Provider), f.generation(r)
	return a
}

func documentOf(a api.Assignment) string {
	return fmt.Sprintf("assignment %s/%d to %s", a.Reservation, a.Generation, a.Provider)
}

func (f *federation) next(prefix string) string {
	f.serial++
	return fmt.Sprintf("%s%d", prefix, f.serial)
}

func (f *federation) candidates() []string {
	if f.rarely("none") {
		return nil
	}
	return rapid.Permutation(providers).Draw(f.t, "candidates")
}

// rarely is true once in ten times.
func (f *federation) rarely(what string) bool { return rapid.IntRange(0, 9).Draw(f.t, what) == 9 }

func until(t market.Time) metav1.Time { return metav1.NewTime(t.Go()) }
