package exchange_test

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

// A watch names the other parties of its cluster's reservations: all at first, also after a resume, and
// then those with news. An unsigned hold makes nobody a party.
func TestWatchMeets(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	met := func(w *exchange.Watch) string { return strings.Join(w.ChangedParties(), ", ") }
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s meets %q, want %q", what, got, want)
		}
	}
	x.must(hold("a", 1))
	unsigned := x.watch("rome", "", 0)
	expect("the provider of a hold", met(unsigned), "")
	x.must(market.SetMember{Cluster: "paris", State: api.MemberSuspended})
	silent(t, unsigned)
	x.must(market.SetMember{Cluster: "paris", State: api.MemberActive})
	x.confirm("a")
	told(t, unsigned)
	expect("the provider, once it is signed,", met(unsigned), "paris")
	expect("once more", met(unsigned), "")

	paris, resumed := x.watch("paris", "", 0), x.watch("rome", x.Lineage(), x.View().Revision)
	expect("the consumer", met(paris), "rome")
	expect("who resumes", met(resumed), "paris")
	x.must(market.SetMember{Cluster: "paris", State: api.MemberRevoked})
	if changed, _ := told(t, resumed); changed != "" {
		t.Errorf("news of a member brings %s", changed)
	}
	expect("the provider of who is revoked", met(resumed), "paris")
	silent(t, paris)
}

// News of a member is for those who have something with it that is not over. The market looks
// through nothing else.
func TestNewsOfAMemberIsForItsLiveParties(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	x.must(hold("a", 1))
	x.confirm("a")
	x.must(market.Release{ID: "a", By: "paris", Generation: 1, Document: "end"})
	x.must(market.Free{ID: "a", Provider: "rome"})
	w := x.watch("rome", x.Lineage(), x.View().Revision)
	w.ChangedParties()
	x.must(market.SetMember{Cluster: "paris", State: api.MemberSuspended})
	silent(t, w)
}
