package match_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// An ask that no cluster can serve alone is served in parts: by what each has, and what its terms
// allow. The pods that have room are counted by nodes.
func TestFits(t *testing.T) {
	s := market.New("")
	put(t, s, "rome", lends("cpu", "1", "memory", "1Gi"), 1)
	small, limited, none := lends("cpu", "8", "memory", "64Gi"), lends("cpu", "64", "memory", "64Gi"), lends("cpu", "64")
	pool := small.Pools[api.GeneralPool]
	pool.Shapes = []api.Shape{{Nodes: 2, Free: of("cpu", "3", "memory", "32Gi")},
		{Nodes: 1, Free: of("cpu", "2", "memory", "1Gi")}}
	small.Pools[api.GeneralPool] = pool
	limited.Terms.MaxPerReservation = of("cpu", "6")
	put(t, s, "small", small, 1)
	put(t, s, "limited", limited, 1)
	put(t, s, "none", none, 1)
	engine, view := match.New(), s.Publish(nil)
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "20", "memory", "16Gi")})
	if err != nil {
		t.Fatal(err)
	}
	pods := []amounts.List{parse(t, "cpu", "2", "memory", "2Gi"), parse(t, "cpu", "1", "memory", "1Gi")}
	got := engine.Fits(view, a, pods, match.MaxFits, now)
	if got.Qualified != 2 || fmt.Sprint(text(got.Sum)) != "cpu=14 memory=32Gi" {
		t.Errorf("%d clusters serve %s", got.Qualified, text(got.Sum))
	}
	want := map[string]string{"small": "cpu=8 memory=16Gi [2 7]", "limited": "cpu=6 memory=16Gi [0 0]"}
	for _, c := range got.Clusters {
		if is := fmt.Sprint(text(c.Resources), " ", c.Pods); is != want[c.Cluster] {
			t.Errorf("%s serves %s, want %s", c.Cluster, is, want[c.Cluster])
		}
	}
	one := engine.Fits(view, a, nil, 1, now)
	if len(one.Clusters) != 1 || !reflect.DeepEqual(one.Sum, got.Sum) {
		t.Errorf("the best one: %+v", one)
	}
}

// A hub advertises no shapes of nodes. The pods that it may run are counted by what it has.
func TestFitsAtAHub(t *testing.T) {
	s := market.New("")
	put(t, s, "rome", lends("cpu", "1"), 1)
	put(t, s, "hub", lends("cpu", "8"), 1)
	m := *s.Member("hub")
	card := *m.Card
	card.Properties.Aggregator = true
	m.Card = &card
	s.Apply(market.Event{Time: now, Member: &m})
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "20"), Target: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	got := engine.Fits(s.Publish(nil), a, []amounts.List{parse(t, "cpu", "3")}, match.MaxFits, now)
	if len(got.Clusters) != 1 || !slices.Equal(got.Clusters[0].Pods, []int64{2}) {
		t.Errorf("%+v", got.Clusters)
	}
}

// What a hub has borrowed counts at the hub, and no longer at its provider: a sum has it once.
func TestFitsCountsWhatAHubLendsOnOnce(t *testing.T) {
	s := market.New("")
	put(t, s, "rome", lends("cpu", "1"), 1)
	source := lends("cpu", "10")
	pool := source.Pools[api.GeneralPool]
	pool.Accounts = map[string]api.AccountUse{"hub": {Commitments: map[string]api.Resources{"r": of("cpu", "6")}}}
	source.Pools[api.GeneralPool] = pool
	put(t, s, "source", source, 1)
	put(t, s, "hub", lends("cpu", "6"), 1)
	m := *s.Member("hub")
	card := *m.Card
	card.Properties.Aggregator = true
	m.Card = &card
	s.Apply(market.Event{Time: now, Member: &m})
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "20"), Aggregated: true})
	if err != nil {
		t.Fatal(err)
	}
	got := engine.Fits(s.Publish(nil), a, nil, match.MaxFits, now)
	if got.Qualified != 2 || text(got.Sum) != "cpu=10" {
		t.Errorf("%d clusters serve %s", got.Qualified, text(got.Sum))
	}
}

// The terms of a cluster are about the part that it would serve.
func TestFitsAsksForAPart(t *testing.T) {
	s := market.New("")
	put(t, s, "rome", lends("cpu", "1"), 1)
	for name, cpu := range map[string]string{"a-large": "64", "b-small": "8", "c-large": "64"} {
		c := lends("cpu", cpu)
		c.Terms.Allow = "request.resources.cpu <= 8.0"
		put(t, s, name, c, 1)
	}
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "20")})
	if err != nil {
		t.Fatal(err)
	}
	got := engine.Fits(s.Publish(nil), a, nil, match.MaxFits, now)
	if len(got.Clusters) != 1 || got.Clusters[0].Cluster != "b-small" {
		t.Errorf("%+v", got)
	}
}

// What serves all of an ask is ranked as a decision ranks it.
func TestFitsRanksAsDecisionsDo(t *testing.T) {
	view, engine := federation(t, 200), match.New()
	a := ask(t, engine, api.Request{Where: `region == "eu"`})
	decided, fits := engine.Decide(view, a, now), engine.Fits(view, a, nil, match.MaxFits, now)
	var names []string
	for _, c := range fits.Clusters {
		names = append(names, c.Cluster)
		if fmt.Sprint(text(c.Resources)) != "cpu=4 memory=8Gi" {
			t.Errorf("%s serves %v", c.Cluster, c.Resources)
		}
	}
	if !reflect.DeepEqual(names, decided.Providers) {
		t.Errorf("the best are %v, a decision says %v", names, decided.Providers)
	}
}

// text writes amounts in the order of their names.
func text(r api.Resources) string {
	var parts []string
	for name, amount := range r {
		parts = append(parts, string(name)+"="+amount.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func parse(t *testing.T, pairs ...string) amounts.List {
	t.Helper()
	a, err := amounts.ParseRequest("pods", of(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// federation is a view of so many providers, as an ordinary one may look.
func federation(tb testing.TB, size int) *market.View {
	tb.Helper()
	s := market.New("")
	for i := range size {
		c := lends("cpu", fmt.Sprint(64+i%97), "memory", "256Gi", "pods",
			"500", "ephemeral-storage", "1Ti", "nvidia.com/gpu", "8")
		c.Properties = api.Properties{
			Region: []string{"eu", "eu", "us"}[i%3], Zones: []string{"a", "b"}, Architectures: []string{"amd64", "arm64"},
			Kubernetes: "v1.35.4", Labels: map[string]string{"tier": "gold"},
		}
		switch i % 10 {
		case 3:
			pool := c.Pools[api.GeneralPool]
			pool.Allocated = of("cpu", fmt.Sprint(61+i%97), "memory", "250Gi")
			c.Pools[api.GeneralPool] = pool
		case 7:
			c.Silent.Duration = market.Lease
		}
		put(tb, s, fmt.Sprintf("cluster-%05d", i), c, 1)
	}
	return s.Publish(nil)
}
