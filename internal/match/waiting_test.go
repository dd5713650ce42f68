package match_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// What is kept for another, or refused already, is no candidate, and the explanation says so.
func TestKeptAndRefused(t *testing.T) {
	v := viewOf(t, map[string]cluster{"rome": {SharesNothing: true},
		"milan": lends("cpu", "10"), "paris": lends("cpu", "10"), "oslo": lends("cpu", "10")})
	engine := match.New()
	request := api.Request{Resources: of("cpu", "4"), Wait: &metav1.Duration{Duration: time.Hour}}
	ask, err := engine.Again(&market.Reservation{Consumer: "rome", Request: &request, Tried: []api.Tried{
		{Provider: "oslo", Reason: api.ReasonPolicy}, {Provider: "paris", Reason: api.ReasonInsufficient},
		{Provider: "paris", Reason: api.ReasonNotConfirmed}, {Provider: "paris", Reason: api.ReasonUnreachable}}})
	if err != nil {
		t.Fatal(err)
	}
	if ask.Passing["paris"] != 1 || len(ask.Passing) != 1 {
		t.Errorf("refusals for causes that pass: %v", ask.Passing)
	}
	ask.Kept = "milan"
	r := engine.Decide(v, ask, now)
	if len(r.Providers) != 1 || r.Providers[0] != "paris" {
		t.Errorf("%v", r.Providers)
	}
	if e := r.Decision.Eliminated; len(e) != 3 || e[1].Filter != "refused" ||
		e[2].Filter != "kept" || r.Decision.NearestMiss.Filter != "kept" {
		t.Errorf("%+v", r.Decision)
	}
	for cluster, want := range map[string]bool{"milan": false, "oslo": false, "paris": true, "rome": false} {
		if got := engine.Serves(v, ask, v.Listing(cluster).Slot, now); got != want {
			t.Errorf("%s serves it: %v", cluster, got)
		}
	}
}

// The nearest is the one that lacks least, of those that have enough in all.
func TestNearest(t *testing.T) {
	s := market.New("")
	for i, name := range []string{"rome", "milan", "paris", "small"} {
		c := map[string]cluster{"rome": {SharesNothing: true}, "milan": lends("cpu", "10"),
			"paris": lends("cpu", "20"), "small": lends("cpu", "4")}[name]
		put(t, s, name, c, int64(i+1))
	}
	take := func(id, provider string, cores int64) {
		s.Apply(market.Event{Time: now, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{
			ID: id, State: api.Reserved, Consumer: "lyon", Provider: provider, Pool: api.GeneralPool, Size: amounts.List{{Resource: "cpu", Value: cores * 1000}}}}})
	}
	engine := match.New()
	v := s.Publish(nil)
	nearest := func(cpu string) string {
		ask, err := engine.Ask("rome", api.Request{Resources: of("cpu", cpu)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"rome", "milan", "paris", "small"} {
			if n := engine.Nearest(v, ask, now); n == name && !engine.Could(v, ask, v.Listing(name).Slot, now) {
				t.Errorf("%s is the nearest, and could not", name)
			}
		}
		return engine.Nearest(v, ask, now)
	}
	take("a", "milan", 6)
	take("b", "paris", 18)
	v = s.Publish(v)
	for cpu, want := range map[string]string{"8": "milan", "11": "paris", "21": "", "3": "milan"} {
		if got := nearest(cpu); got != want {
			t.Errorf("the nearest for %s is %q, want %q", cpu, got, want)
		}
	}
}
