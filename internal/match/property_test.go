package match_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/money"
)

// consumer is who asks in the properties below.
const consumer = "cluster-00"

// init has each property look at enough questions: one question in seven says something about the rarest, and a short
// run draws a fifth. Flags are parsed later.
func init() {
	if err := flag.Set("rapid.checks", "500"); err != nil {
		panic(err)
	}
}

// drawCluster is any cluster. Few values, so that clusters meet each filter and tie often.
func drawCluster(t *rapid.T, name string) cluster {
	quantity := func(what string, most int) string { return fmt.Sprint(rapid.IntRange(0, most).Draw(t, name+" "+what)) }
	oneIn := func(n int, what string) bool { return rapid.IntRange(1, n).Draw(t, name+" "+what) == n }
	c := cluster{
		SharesNothing: oneIn(8, "shares nothing"), NoKey: oneIn(12, "no key"), Restarted: oneIn(12, "restarted"),
		Stranger: oneIn(12, "stranger"),
		State: rapid.SampledFrom([]api.MemberState{"", "", "", "",
			api.MemberPending, api.MemberSuspended, api.MemberRemoved}).Draw(t, name+" state"),
		Properties: api.Properties{
			Region: rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, name+" region"),
			Labels: rapid.SampledFrom([]map[string]string{nil, {"tier": "gold"}, {"tier": "silver", "team": "blue"}}).Draw(t,
				name+" labels"),
		},
		Terms: api.Terms{
			VisibleTo: rapid.SampledFrom([]api.Audience{{}, {}, {Clusters: []string{consumer}},
				{Clusters: []string{"oslo"}}, {Labels: map[string]string{"tier": "gold"}}}).Draw(t, name+" visible to"),
			Allow: rapid.SampledFrom([]string{"", "", `consumer.region == "eu"`,
				`request.resources.cpu < 4`, `not CEL`}).Draw(t, name+" allow"),
		},
	}
	if oneIn(8, "silent") {
		c.Silent.Duration = 2 * market.Lease
	}
	if oneIn(2, "uptime") {
		ppm := rapid.SampledFrom([]int64{0, 500_000, 990_000, 999_000, 1_000_000}).Draw(t, name+" uptime")
		c.Uptime = &ppm
	}
	if oneIn(2, "record") {
		c.Kept, c.Broken = rapid.IntRange(0, 6).Draw(t, name+" kept"), rapid.IntRange(0, 3).Draw(t, name+" broken")
	}
	if oneIn(4, "limit") {
		c.Terms.MaxPerConsumer = of("cpu", "4")
	}
	if oneIn(4, "short") {
		c.Terms.MaxDuration = &metav1.Duration{Duration: time.Hour}
	}
	shared := of("cpu", quantity("cpu", 8), "memory", quantity("memory", 8))
	c.Pools = map[string]api.Pool{rapid.SampledFrom([]string{"general", "general", "gpu"}).Draw(t, name+" pool"): {
		Shared: shared, Allocatable: of("cpu", "6", "memory", "6"), Allocated: of("cpu", quantity("allocated", 3)),
		Accounts: map[string]api.AccountUse{
			rapid.SampledFrom([]string{consumer, "oslo"}).Draw(t, name+" user"): {Used: of("cpu", quantity("used", 2))},
		},
	}}
	if rapid.Bool().Draw(t, name+" sells") {
		c.Terms.OnlyOffers = rapid.Bool().Draw(t, name+" only")
		c.Offers = map[string]api.OfferSpec{"web": {Plans: []api.Plan{drawPlan(t, name, "a"), drawPlan(t, name, "b")}}}
	}
	if oneIn(2, "shapes") {
		pool := slices.Sorted(maps.Keys(c.Pools))[0]
		p := c.Pools[pool]
		p.Shapes = []api.Shape{{Nodes: rapid.Int64Range(1, 3).Draw(t, name+" nodes"),
			Free: of("cpu", quantity("free cpu", 4), "memory", quantity("free memory", 4))},
			{Nodes: 1, Free: of("cpu", quantity("more cpu", 8))}}
		c.Pools[pool] = p
	}
	if rapid.Bool().Draw(t, name+" willing") { // otherwise few requests find one candidate, and hardly any two
		c.SharesNothing, c.NoKey, c.Restarted, c.Stranger, c.State, c.Silent.Duration = false, false, false, false, "", 0
		c.Terms = api.Terms{OnlyOffers: c.Terms.OnlyOffers, MaxDuration: c.Terms.MaxDuration}
		c.Pools = map[string]api.Pool{api.GeneralPool: {
			Shared: of("cpu", "8", "memory", "16"), Allocatable: of("cpu",
				"8", "memory", "16"), Allocated: of("cpu", quantity("own", 2)),
			Accounts: map[string]api.AccountUse{},
		}}
		for i := range c.Offers["web"].Plans {
			c.Offers["web"].Plans[i].Pool = ""
		}
	}
	return c
}

func drawPlan(t *rapid.T, seller, name string) api.Plan {
	p := api.Plan{Name: name, Resources: of("cpu", "1", "memory", "2"),
		Pool:     rapid.SampledFrom([]string{"", "", "gpu"}).Draw(t, seller+" plan pool"),
		Quantity: rapid.SampledFrom([]int64{0, 4}).Draw(t, seller+" quantity"), Units: &api.Units{Min: 1,
			Max: 6, Step: rapid.Int64Range(1, 2).Draw(t, seller+" step")}}
	if amount := rapid.SampledFrom([]string{"", "0.5", "1", "1.5", "24"}).Draw(t, seller+" price"); amount != "" {
		p.Price = &api.Price{Amount: amount, Currency: rapid.SampledFrom([]string{"EUR", "EUR", "USD"}).Draw(t,
			seller+" currency"),
			Period: rapid.SampledFrom([]api.Period{api.PeriodHour, api.PeriodDay, api.PeriodMonth}).Draw(t, seller+" period")}
	}
	return p
}

func drawFederation(t *rapid.T) map[string]cluster {
	out := map[string]cluster{}
	for i := range rapid.SampledFrom([]int{1, 2, 4, 8, 14}).Draw(t, "clusters") {
		id := fmt.Sprintf("cluster-%02d", i)
		out[id] = drawCluster(t, id)
	}
	return out
}

func drawRequest(t *rapid.T) api.Request {
	name := rapid.SampledFrom([]string{consumer, "cluster-01", "cluster-02", "cluster-03", "nowhere"})
	r := api.Request{
		Resources: of(rapid.SampledFrom([]string{"cpu", "memory"}).Draw(t, "resource"),
			fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "amount"))),
		Pool: rapid.SampledFrom([]string{"", "", "gpu"}).Draw(t, "pool"),
		Where: rapid.SampledFrom([]string{"", "", `region == "eu"`,
			`labels.tier == "gold" || shared.cpu > 4`, `uptime >= 0.99`, `honoured > 0.7`}).Draw(t, "where"),
		Strategy: rapid.SampledFrom([]api.Strategy{"", api.Pack, api.Reliable}).Draw(t, "strategy"),
		Exclude:  rapid.SliceOfN(name, 0, 2).Draw(t, "exclude"),
		Prefer:   rapid.SliceOfN(name, 0, 2).Draw(t, "prefer"),
	}
	if rapid.Bool().Draw(t, "both") {
		r.Resources = of("cpu", fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "cpu")),
			"memory", fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "memory")))
	}
	if rapid.IntRange(1, 3).Draw(t, "shaped") == 3 {
		r.PodShape = api.Resources{}
		for name, q := range r.Resources {
			r.PodShape[name] = *resource.NewQuantity(rapid.Int64Range(1, q.Value()).Draw(t, "shape"), resource.DecimalSI)
		}
	}
	if rapid.Bool().Draw(t, "ceiling") {
		r.MaxPrice = &api.Price{Amount: rapid.SampledFrom([]string{"0", "0.5", "3", "30"}).Draw(t, "most"), Currency: "EUR",
			Period: rapid.SampledFrom([]api.Period{api.PeriodHour, api.PeriodDay}).Draw(t, "per")}
		r.Strategy = rapid.SampledFrom([]api.Strategy{"", api.Reliable, api.Cheap}).Draw(t, "strategy with a ceiling")
	}
	if rapid.IntRange(1, 5).Draw(t, "properties") == 5 {
		r.Properties = map[string]string{"tier": "gold"}
	}
	if rapid.IntRange(1, 6).Draw(t, "data") == 6 {
		r.StickTo = rapid.SliceOfN(name, 1, 2).Draw(t, "stick to")
	}
	if rapid.IntRange(1, 8).Draw(t, "target") == 8 {
		r.Target = name.Draw(t, "target name")
	}
	if rapid.Bool().Draw(t, "simple") {
		r.Pool, r.Where, r.Exclude, r.Properties, r.StickTo, r.Target = "", "", nil, nil, nil, ""
		if r.MaxPrice != nil {
			r.MaxPrice.Amount, r.MaxPrice.Period = "30", api.PeriodHour
		}
	}
	return r
}

// seen counts the questions in which a property had something to look at.
type seen int

// some fails a test whose property held because no question was about it.
func (n *seen) some(t *testing.T) {
	t.Helper()
	if *n == 0 {
		t.Error("no drawn question had anything for this property to look at")
	}
}

// question is a drawn request to a drawn federation.
type question struct {
	engine   *match.Engine
	clusters map[string]cluster
	view     *market.View
	ask      match.Ask
}

// sellOnly has each cluster that sells lend nothing otherwise, and adds one that sells to everybody: otherwise one
// question in ten has a seller among its candidates.
func (q *question) sellOnly(t *testing.T) {
	q.clusters["cheap"] = cluster{Pools: map[string]api.Pool{api.GeneralPool: {Shared: of("cpu", "8", "memory", "16"),
		Allocatable: of("cpu", "8", "memory", "16"), Accounts: map[string]api.AccountUse{}}},
		Offers: map[string]api.OfferSpec{"web": {Plans: []api.Plan{{Name: "a", Resources: of("cpu", "1", "memory", "2"),
			Units: &api.Units{Min: 1, Max: 6, Step: 1}}}}}}
	for id, c := range q.clusters {
		c.Terms.OnlyOffers = c.Offers != nil
		q.clusters[id] = c
	}
	q.view = viewOf(t, q.clusters)
}

func drawQuestion(tb testing.TB, t *rapid.T) question {
	q := question{engine: match.New(), clusters: drawFederation(t)}
	q.view = viewOf(tb, q.clusters)
	var err error
	if q.ask, err = q.engine.Ask(consumer, drawRequest(t)); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestNumbersAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		ranking := q.engine.Decide(q.view, q.ask, now)
		e := q.engine.Evaluate(q.view, q.ask, now)
		if got, want := toJSON(rt, e.Decision), toJSON(rt, ranking.Decision); got != want {
			rt.Fatalf("evaluated %s, decided %s", got, want)
		}
		d, eliminated := ranking.Decision, map[api.Elimination]int{}
		sum := d.Hidden + d.Candidates
		for _, one := range d.Eliminated {
			sum += one.Count
			eliminated[api.Elimination{Filter: one.Filter, Reason: one.Reason}] = one.Count
		}
		members := 0
		for slot := range q.view.Len() {
			if !q.view.At(slot).Gone() {
				members++
			}
		}
		if d.Considered != members || d.Considered != sum {
			rt.Fatalf("%d members, considered %d, sum %d", members, d.Considered, sum)
		}
		candidates := 0
		for _, v := range e.Clusters {
			if v.Filter == "" {
				candidates++
			} else {
				eliminated[api.Elimination{Filter: v.Filter, Reason: v.Reason}]--
			}
		}
		for reason, left := range eliminated {
			if left != 0 {
				rt.Fatalf("%+v: %d counted that have no verdict", reason, left)
			}
		}
		if candidates != d.Candidates || len(e.Clusters) != d.Considered-d.Hidden {
			rt.Fatalf("%d verdicts, %d candidates: %+v", len(e.Clusters), candidates, d)
		}
		if len(ranking.Providers) != min(8, candidates) || len(d.Top) != min(5, candidates) {
			rt.Fatalf("%d candidates, ranked %v, top %v", candidates, ranking.Providers, d.Top)
		}
		for i, id := range ranking.Providers {
			if e.Clusters[i].Cluster != id || i < len(d.Top) && d.Top[i].Cluster != id || i == 0 && d.Chosen != id {
				rt.Fatalf("ranked %v; verdicts %v; top %v", ranking.Providers, e.Clusters, d.Top)
			}
		}
	})
}

func TestOrderOfClustersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		order := rapid.Permutation(slices.Sorted(maps.Keys(q.clusters))).Draw(rt, "order")
		other := q.engine.Evaluate(viewOf(t, q.clusters, order...), q.ask, now)
		if got, want := toJSON(rt, other), toJSON(rt, q.engine.Evaluate(q.view, q.ask, now)); got != want {
			rt.Fatalf("%s in the order %v\n%s in that of names", got, order, want)
		}
	})
}

// TestAnotherClusterChangesNoRank: one more cluster, better, worse or not qualified, takes its
// place among the others and leaves theirs.
func TestAnotherClusterChangesNoRank(t *testing.T) {
	var ranked seen
	defer ranked.some(t)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		before := q.engine.Decide(q.view, q.ask, now).Providers
		q.clusters["another"] = drawCluster(rt, "another")
		after := q.engine.Decide(viewOf(t, q.clusters), q.ask, now).Providers
		after = slices.DeleteFunc(after, func(id string) bool { return id == "another" })
		if len(before) > 1 {
			ranked++
		}
		if n := min(len(before), len(after)); !slices.Equal(before[:n], after[:n]) {
			rt.Fatalf("before %v, after %v", before, after)
		}
	})
}

// TestNothingIsBoughtAboveTheCeiling: each ranked provider lends, or sells a plan for the whole request, in the
// currency of the highest price, for no more than that price, computed exactly as for a contract. Without a highest
// price, no provider sells.
func TestNothingIsBoughtAboveTheCeiling(t *testing.T) {
	var bought seen
	defer bought.some(t)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		if rapid.Bool().Draw(rt, "sellers only sell") {
			q.sellOnly(t)
		}
		ranking := q.engine.Decide(q.view, q.ask, now)
		for _, id := range ranking.Providers {
			sale, sells := ranking.Plans[id]
			if sells != q.clusters[id].Terms.OnlyOffers {
				rt.Fatalf("%s lends by offers only: %v; it sells %v", id, q.clusters[id].Terms.OnlyOffers, sale)
			}
			if !sells {
				continue
			}
			bought++
			most := q.ask.Request.MaxPrice
			plan := offered(t, id, "web", q.clusters[id].Offers["web"]).Plan(sale.Plan)
			size, err := plan.Of(sale.Units)
			if most == nil || err != nil || !size.Fits(q.ask.Size) || plan.Pool != q.ask.Request.Pool {
				rt.Fatalf("%s sells %v of %v: %v for %v, %v", id, sale, plan, size, q.ask.Size, err)
			}
			ceiling, _ := money.Parse("", most)
			over := plan.Price.Cost(sale.Units, now.Go(), q.ask.Duration)
			if over.Cmp(ceiling.Cost(1, now.Go(), q.ask.Duration)) > 0 ||
				!plan.Price.Free() && plan.Price.Currency != most.Currency {
				rt.Fatalf("%s sells %d at %s for at most %s", id, sale.Units, plan.Price.Text(), ceiling.Text())
			}
		}
	})
}

// TestDearerNeverWins: a seller like the chosen one that asks for more is not chosen instead of it
// by who wants it cheap.
func TestDearerNeverWins(t *testing.T) {
	var compared seen
	defer compared.some(t)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		q.sellOnly(t)
		r := q.ask.Request
		r.Prefer, r.Target, r.Strategy = nil, "", api.Cheap
		if r.MaxPrice == nil {
			r.MaxPrice = &api.Price{Amount: "30", Currency: "EUR", Period: api.PeriodHour}
		}
		a, err := q.engine.Ask(consumer, r)
		if err != nil {
			rt.Fatal(err)
		}
		ranking := q.engine.Decide(q.view, a, now)
		best := ranking.Decision.Chosen
		if ranking.Plans[best] == nil {
			return
		}
		compared++
		dearer := q.clusters[best]
		spec := dearer.Offers["web"]
		spec.Plans = slices.Clone(spec.Plans)
		for i := range spec.Plans {
			p := &spec.Plans[i]
			if p.Price = p.Price.DeepCopy(); p.Price == nil {
				p.Price = &api.Price{Amount: "0", Currency: "EUR", Period: api.PeriodHour}
			}
			p.Price.Amount = rapid.SampledFrom([]string{"25", "100"}).Draw(rt, "dearer")
		}
		dearer.Offers = map[string]api.OfferSpec{"web": spec}
		for _, id := range []string{"aaa", "zzz"} {
			q.clusters[id] = dearer
			if got := q.engine.Decide(viewOf(t, q.clusters), a, now).Decision.Chosen; got == id {
				rt.Fatalf("%s was chosen instead of %s", id, best)
			}
		}
	})
}

// TestWorseNeverWins: a cluster like the chosen one with less of everything is not chosen instead of it.
func TestWorseNeverWins(t *testing.T) {
	var compared seen
	defer compared.some(t)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		r := q.ask.Request
		r.Prefer, r.Target, r.StickTo = nil, "", nil
		if r.Strategy == api.Pack {
			r.Strategy = api.Balance
		}
		a, err := q.engine.Ask(consumer, r)
		if err != nil {
			rt.Fatal(err)
		}
		best := q.engine.Decide(q.view, a, now).Decision.Chosen
		if best == "" {
			return
		}
		compared++
		worse := q.clusters[best]
		pool := worse.Pools[r.Pool]
		pool.Accounts = maps.Clone(pool.Accounts)
		pool.Accounts["bergen"] = api.AccountUse{Used: of("cpu", "1", "memory", "1")}
		worse.Pools = map[string]api.Pool{r.Pool: pool}
		if worse.Kept > 0 {
			worse.Kept, worse.Broken = worse.Kept-1, worse.Broken+1
		}
		for _, id := range []string{"aaa", "zzz"} {
			q.clusters[id] = worse
			if got := q.engine.Decide(viewOf(t, q.clusters), a, now).Decision.Chosen; got == id {
				rt.Fatalf("%s was chosen instead of %s", id, best)
			}
		}
	})
}

func TestHiddenIsNeverNamed(t *testing.T) {
	var hid seen
	defer hid.some(t)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuestion(t, rt)
		asker := &api.Card{Cluster: consumer, Properties: q.clusters[consumer].Properties}
		if c := q.clusters[consumer]; c.NoKey || c.Stranger {
			asker.Properties = api.Properties{}
		}
		out := toJSON(rt, q.engine.Evaluate(q.view, q.ask, now)) + fmt.Sprint(q.engine.Decide(q.view, q.ask, now).Providers)
		hidden := 0
		for id, c := range q.clusters {
			terms := &market.Terms{Terms: c.Terms}
			if c.SharesNothing {
				terms = nil
			}
			if id == consumer || c.State == "" && !c.Stranger && match.Visible(terms, asker) {
				continue
			}
			// these are no members: nobody counts them
			if !c.Stranger && c.State != api.MemberRemoved && c.State != api.MemberRevoked {
				hidden++
			}
			hid++
			if strings.Contains(out, id) {
				rt.Fatalf("%s is hidden: %s", id, out)
			}
		}
		if got := q.engine.Decide(q.view, q.ask, now).Decision.Hidden; got != hidden {
			rt.Fatalf("hidden %d, want %d", got, hidden)
		}
	})
}

func toJSON(t *rapid.T, v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
