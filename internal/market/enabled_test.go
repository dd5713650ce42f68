package market_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// What a consumer enables is a set that begins empty; repeating changes nothing, and nothing is
// held on what is not in it.
func TestEnable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, "")
		n.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "rome", State: api.MemberActive, Key: "k"}})
		var set map[string]bool
		for range rapid.IntRange(1, 30).Draw(t, "acts") {
			id := rapid.SampledFrom([]string{"milan", "oslo", "paris"}).Draw(t, "id")
			switch rapid.SampledFrom([]string{"on", "off", "all"}).Draw(t, "act") {
			case "all":
				set = nil
				enable(t, n, market.EnableAll{Consumer: "rome"})
			case "on":
				if set == nil {
					set = map[string]bool{}
				}
				set[id] = true
				enable(t, n, market.Enable{Consumer: "rome", Provider: id, Enabled: true})
			case "off":
				if set == nil {
					set = map[string]bool{}
				}
				delete(set, id)
				enable(t, n, market.Enable{Consumer: "rome", Provider: id})
			}
			m := n.state.Member("rome")
			for _, id := range []string{"milan", "oslo", "paris"} {
				if want := set == nil || set[id]; m.Enables(id) != want {
					t.Fatalf("%s is enabled: %t, of %v", id, !want, m.Enabled)
				}
			}
			if m.Enabled != nil && !slices.IsSorted(m.Enabled.Providers) {
				t.Fatal(m.Enabled)
			}
			n.check()
		}
	})
}

// enable does a command twice: the second time there is nothing to do.
func enable(t *rapid.T, n *node, c market.Command) {
	for try := range 2 {
		out, err := n.do(c, noon)
		if err != nil || try == 1 && len(out.Events) > 0 {
			t.Fatalf("%+v: %v, %v", c, out.Events, err)
		}
	}
}

func TestEnableDecides(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Enable{Consumer: "paris", Provider: "milan", Enabled: true})
	h := request("r", 2)
	h.Candidates = []string{"rome", "milan"}
	if r := d.must(h).Reservation; r.Provider != "milan" {
		t.Errorf("held on %s, which is not enabled", r.Provider)
	}
	for name, c := range map[string]market.Enable{
		"nobody":       {Consumer: "oslo", Provider: "milan", Enabled: true},
		"no cluster":   {Consumer: "paris", Provider: "Milan", Enabled: true},
		"an operator":  {Consumer: "paris", Provider: `{"$ne":""}`},
		"nothing said": {Consumer: "paris"},
	} {
		if out, err := d.do(c, noon); err == nil || len(out.Events) > 0 {
			t.Errorf("%s: %v", name, out.Events)
		}
	}
	for i := range 999 {
		d.must(market.Enable{Consumer: "paris", Provider: fmt.Sprint("c", i), Enabled: true})
	}
	if _, err := d.do(market.Enable{Consumer: "paris", Provider: "one-more", Enabled: true},
		noon); api.CodeOf(err) != api.CodeInvalid {
		t.Error(err)
	}
	d.must(token("again", "paris"))
	d.must(joining("again", "paris"))
	if d.state.Member("paris").Enabled == nil {
		t.Error("a member that joined again has lost its list of enabled providers")
	}
}

// An agent records what each of its brokers says: once, sorted, within bounds, also before it has a card. The
// lists of those that count are taken together.
func TestChoose(t *testing.T) {
	n := newNode(t, "rome")
	chooses := func(via string, providers *[]string) (market.Outcome, error) {
		return n.do(market.Choose{Consumer: "rome", Via: via, Providers: providers}, noon)
	}
	permits := func(provider string, vias ...string) bool {
		return n.state.Member("rome").Chose(provider, func(via string) bool { return slices.Contains(vias, via) })
	}
	if !permits("milan", "") {
		t.Error("without a choice, not all are permitted")
	}
	for try := range 2 {
		if out, err := chooses("", &[]string{"oslo", "milan"}); err != nil || len(out.Events) != 1-try {
			t.Fatalf("try %d: %v, %v", try, out.Events, err)
		}
	}
	if !permits("milan", "") || !permits("oslo", "") || permits("paris", "") || !permits("paris") {
		t.Errorf("%+v", n.state.Member("rome").Choices)
	}
	for name, wrong := range map[string][]string{"no name": {"../x"}, "too many": make([]string, 1001)} {
		if _, err := chooses("", &wrong); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := chooses("broker/north", &[]string{"paris"}); err != nil ||
		!permits("paris", "", "broker/north") || !permits("milan", "", "broker/north") ||
		permits("milan", "broker/north") || permits("bonn", "", "broker/north") {
		t.Errorf("of two: %v", err)
	}
	if _, err := chooses("", &[]string{}); err != nil || permits("milan", "") || permits("milan", "", "broker/north") {
		t.Errorf("none: %v", err)
	}
	for try := range 2 {
		if out, err := chooses("", nil); err != nil || len(out.Events) != 1-try || !permits("milan", "") ||
			permits("milan", "", "broker/north") {
			t.Errorf("all, try %d: %v, %v", try, out.Events, err)
		}
	}
	for i := range 100 {
		if _, err := chooses(fmt.Sprint("broker/", i), &[]string{"milan"}); err != nil {
			t.Fatal(err)
		}
	}
	if all := n.state.Member("rome").Choices; len(all) != 100 || all[0].Via != "broker/0" {
		t.Errorf("%d choices are kept, first %+v", len(all), all[0])
	}
}

// A long choice takes hardly longer to look at than a short one: a broker shows as many clusters as it likes.
func TestALongChoiceIsQuick(t *testing.T) {
	took := func(providers int) time.Duration {
		m := &market.Member{Choices: []market.Choice{{}}}
		for i := range providers {
			m.Choices[0].Providers = append(m.Choices[0].Providers, fmt.Sprintf("c-%04d", i))
		}
		least := time.Hour
		for range 5 {
			began := time.Now()
			for range 10_000 {
				if m.Chose("d-0000", func(string) bool { return true }) {
					t.Fatal("it permits a provider that it does not name")
				}
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if short, long := took(10), took(1000); long > 10*short {
		t.Errorf("1,000 providers take %s, and 10 take %s", long, short)
	}
}
