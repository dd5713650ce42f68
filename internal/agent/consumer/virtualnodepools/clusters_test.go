package virtualnodepools

import (
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// buys makes a reservation one unit of a plan of its provider's.
func (d *desk) buys(version int64, change func(*api.OfferSpec)) func(*market.Reservation) {
	return func(r *market.Reservation) {
		spec := transporttest.WebOffer("0.10")
		if change != nil {
			change(&spec)
		}
		offer, err := market.ReadOffer(transporttest.NewParty(d.t, r.Provider).SignOffer("web", version, spec))
		if err != nil {
			d.t.Fatal(err)
		}
		r.Offer, r.From = offer, r.Created
		r.Sale = &api.Sale{Offer: offer.Digest, Plan: "small", Units: 2}
	}
}

// The status shows what one unit at a provider costs, and the provider's uptime, read at most once an hour.
func TestShowsPriceAndUptime(t *testing.T) {
	d := newDesk(t)
	pool, uptime := d.pool("burst"), int64(999_000)
	d.clusters = map[string]api.Cluster{"milan": {Uptime: &uptime}}
	d.bound(d.child(pool, "milan", "2"), d.buys(1, nil))
	p := d.look("burst").Status.Providers[0]
	if p.Price != "0.10 EUR/hour" || p.Uptime == nil || *p.Uptime != 999_000 {
		t.Errorf("it shows %+v", p)
	}
	lower := int64(1)
	d.clusters["milan"] = api.Cluster{Uptime: &lower}
	if p := d.look("burst").Status.Providers[0]; *p.Uptime != 999_000 {
		t.Errorf("it asks again at once: %d", *p.Uptime)
	}
	d.clock.SetTime(d.clock.Now().Add(time.Hour))
	if p := d.look("burst").Status.Providers[0]; *p.Uptime != 1 {
		t.Errorf("an hour later: %d", *p.Uptime)
	}
}

// Where no provider has room, the status names the one that came closest.
func TestNamesTheNearestMiss(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	d.pods(2, "2")
	d.miss = &api.Miss{Cluster: "milan", Filter: "where", Message: `region is "us"`}
	p := d.look("burst")
	if condition(p, api.ConditionLimited) != "True NoCandidate" ||
		!strings.HasSuffix(p.Status.Why, `no provider has room for 2 more pods; nearest miss: milan, by where: region is "us"`) {
		t.Errorf("it shows %q", p.Status.Why)
	}
	if again := d.look("burst").Status.Why; again != p.Status.Why || len(d.asked) != 2 { // for all, and for one
		t.Errorf("it shows %q, and asked %d times", again, len(d.asked))
	}
}

// A provider of several architectures is no candidate, unless the template names architectures.
func TestMixedArchitectures(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(2, "2")
	d.clusters = map[string]api.Cluster{"milan": {Properties: api.Properties{Architectures: []string{"amd64", "arm64"}}}}
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	for _, where := range []string{"", "", `region != "architectures"`, `!has(labels.architectures)`} {
		d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where = where })
		p := d.look("burst")
		if condition(p, api.ConditionLimited) != "True NoCandidate" || len(d.requests()) != 0 ||
			!strings.Contains(p.Status.Why, "milan has several architectures: to use it, name architectures in template.where") {
			t.Errorf("%q: it shows %q", where, p.Status.Why)
		}
	}
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where = `"amd64" in architectures` })
	if d.look("burst"); len(d.requests()) != 1 {
		t.Error("it does not grow")
	}
}
