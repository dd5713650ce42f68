package match_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// TestWhatIsRememberedDoesNotShow: an engine that has decided before, while the market changed,
// decides like one that remembers nothing.
func TestWhatIsRememberedDoesNotShow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		engine, s, number := match.New(), market.New(""), int64(1)
		for i := range 70 { // so that there are two pages, and one rarely changes
			put(t, s, fmt.Sprintf("filler-%02d", i), lends("cpu", fmt.Sprint(i%5)), number)
		}
		var view *market.View
		var asks []match.Ask
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 4).Draw(rt, "changes") {
				id := fmt.Sprintf("cluster-%02d", rapid.IntRange(0, 5).Draw(rt, "changed"))
				number++
				put(t, s, id, drawCluster(rt, id), number)
			}
			view = s.Publish(view)
			a, err := engine.Ask(consumer, drawRequest(rt))
			if err != nil {
				rt.Fatal(err)
			}
			asks = append(asks, a)
			for _, a := range asks {
				got, want := engine.Decide(view, a, now), engine.DecidePlainly(view, a, now)
				if !reflect.DeepEqual(got, want) {
					rt.Fatalf("%+v\ngot  %+v\nwant %+v", a.Request, got, want)
				}
			}
		}
	})
}

// TestWhereFollowsTheAdvertisement: what a `where` came to holds for one advertisement and one card.
func TestWhereFollowsTheAdvertisement(t *testing.T) {
	engine, s := match.New(), market.New("")
	a := ask(t, engine, api.Request{Resources: of("cpu", "1"), Where: `shared.cpu >= 4 && region == "eu"`})
	c, number := lends("cpu", "4"), int64(0)
	var view *market.View
	decide := func(want string, change func(testing.TB, *market.State, string, cluster, int64)) {
		t.Helper()
		number++
		change(t, s, "amber", c, number)
		view = s.Publish(view)
		if got := engine.Decide(view, a, now).Decision; got.Chosen != want {
			t.Errorf("chosen %q, want %q: %+v", got.Chosen, want, got)
		}
	}
	decide("", put)
	c.Properties.Region = "eu"
	decide("amber", put)
	c.Pools = lends("cpu", "2").Pools
	decide("", advertise)
	c.Pools = lends("cpu", "8").Pools
	decide("amber", advertise)
	c.Properties.Region = "us"
	decide("", put)
}

// TestManyDecideAtOnce: decisions on several goroutines over views that change do not disturb each other.
func TestManyDecideAtOnce(t *testing.T) {
	s := market.New("")
	var views []*market.View
	var last *market.View
	for number := range int64(4) {
		for i := range 150 {
			if i%int(number+1) == 0 {
				c := lends("cpu", fmt.Sprint(1+(i*7+int(number)*3)%16))
				c.Properties.Region = []string{"eu", "us", ""}[(i+int(number))%3]
				put(t, s, fmt.Sprintf("cluster-%03d", i), c, number+1)
			}
		}
		last = s.Publish(last)
		views = append(views, last)
	}
	wheres := []string{"", `region == "eu"`, `region != "us" && shared.cpu > 2`,
		`int(region) > labels.size()`, `has(labels.tier) || labels.tier == "gold"`}
	engine := match.New()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 24 {
				r := api.Request{Resources: of("cpu", fmt.Sprint(1+n%3)), Where: wheres[n%len(wheres)]}
				a, err := engine.Ask("cluster-000", r)
				if err != nil {
					t.Error(err)
					return
				}
				view := views[(n+worker)%len(views)]
				if got, want := engine.Decide(view, a, now), engine.DecidePlainly(view, a, now); !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			}
		})
	}
	wg.Wait()
}
