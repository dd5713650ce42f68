package market_test

import (
	"fmt"
	"slices"
	"testing"

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
	d := newDesk(t)
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
		t.Error("who joins anew has forgotten its choice")
	}
}
