package virtualnodepools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// edit changes the spec of a pool.
func (d *desk) edit(p *api.VirtualNodePool, change func(*api.VirtualNodePoolSpec)) {
	d.t.Helper()
	before := p.DeepCopy()
	change(&p.Spec)
	if err := d.Patch(d.t.Context(), p, client.MergeFrom(before)); err != nil {
		d.t.Fatal(err)
	}
}

// An edit of the template shows as Drifted until the extension: then the broker says whether the
// provider meets it.
func TestDrifts(t *testing.T) {
	for _, meets := range []bool{true, false} {
		d := newDesk(t)
		pool := d.pool("burst")
		node := d.bound(d.child(pool, "milan", "4"), nil)
		d.pods(2, "2")
		d.bind(node)
		if p := d.look("burst"); condition(p, api.ConditionDrifted) != "False AsTheTemplate" {
			t.Fatalf("it shows %+v", p.Status.Conditions)
		}
		d.edit(pool, func(s *api.VirtualNodePoolSpec) {
			s.Template.Where, s.Replace = `region == "eu"`, api.ReplaceOnDrift
		})
		if p := d.look("burst"); condition(p, api.ConditionDrifted) != "True OtherTemplate" || len(d.asked) > 0 {
			t.Fatalf("after the edit: %+v", p.Status.Conditions)
		}
		if !meets {
			d.eliminated = []api.Elimination{{Filter: "target", Count: 9}, {Filter: "where", Reason: "WhereFalse", Count: 1}}
		}
		d.clock.SetTime(d.clock.Now().Add(13 * time.Hour))
		p := d.look("burst")
		if q := d.asked[0].Request; q.Target != "milan" || q.Where != `region == "eu"` {
			t.Errorf("it asks %+v", q)
		}
		extended := d.requests()[0].Spec.Duration != nil && d.requests()[0].Spec.Duration.Duration > 36*time.Hour
		if drifted := condition(p, api.ConditionDrifted) == "True OtherTemplate"; drifted == meets || extended != meets {
			t.Errorf("meets %v: drifted %v, extended %v", meets, drifted, extended)
		}
		if !meets && p.Status.Providers[0].State != string(vnp.Leaving) {
			t.Errorf("it is %s", p.Status.Providers[0].State)
		}
	}
}

// A provider that is farther than maxLatency is passed over; several providers.only are asked for at once.
func TestPassesOverProvidersThatAreFar(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.edit(pool, func(s *api.VirtualNodePoolSpec) {
		s.MaxLatency = &metav1.Duration{Duration: 40 * time.Millisecond}
		s.Providers.Only = []string{"milan", "oslo"}
	})
	d.far = map[string]time.Duration{"milan": time.Second, "oslo": time.Second}
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}, {Cluster: "oslo", Resources: resources("50")}}
	d.pods(2, "2")
	if p := d.look("burst"); condition(p, api.ConditionLimited) != "True TooFar" || len(d.requests()) > 0 {
		t.Errorf("it shows %+v", p.Status)
	}
	if got := fmt.Sprint(d.asked[0].Request.StickTo); got != "[milan oslo]" {
		t.Errorf("it asks for %s", got)
	}
	d.far["oslo"] = 30 * time.Millisecond
	d.grown++
	d.clock.SetTime(d.clock.Now().Add(askEvery))
	d.look("burst")
	if got := d.requests(); len(got) != 1 || got[0].Spec.Target != "oslo" {
		t.Errorf("it makes %+v", got)
	}
}

// A provider that refuses is asked again after 5 minutes, then 10, and never later than after 4 hours.
func TestBacksOff(t *testing.T) {
	m, now := &memory{paused: map[string]pause{}}, time.Now()
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute,
		80 * time.Minute, 160 * time.Minute, 4 * time.Hour, 4 * time.Hour} {
		m.pause("milan", now, nil)
		if got := m.paused["milan"].until.Sub(now); got != want {
			t.Errorf("it waits %s, want %s", got, want)
		}
	}
}

// What /api/toggle disabled says so at once, in the condition and an Event: it leaves later.
func TestShowsWhatIsDisabled(t *testing.T) {
	d := newDesk(t)
	node := d.bound(d.child(d.pool("burst"), "milan", "4"), nil)
	d.pods(2, "2")
	d.bind(node)
	d.look("burst")
	choose := market.Choose{Consumer: "rome", Providers: &[]string{"oslo"}}
	if _, err := d.ledger.Do(t.Context(), choose); err != nil {
		t.Fatal(err)
	}
	p := d.look("burst")
	c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionDrifted)
	leaves := p.Status.Providers[0].Until.Add(-12 * time.Hour).UTC().Format(time.RFC3339)
	want := "milan is disabled at the broker and leaves at " + leaves + "; at once: bourse vnp disable burst milan"
	if c == nil || condition(p, api.ConditionDrifted) != "True Disabled" || c.Message != want {
		t.Errorf("it shows %+v, want %q", c, want)
	}
	close(d.events.Events)
	told := false
	for event := range d.events.Events {
		told = told || strings.HasPrefix(event, "Warning Drifted Disabled: milan is disabled")
		if strings.HasSuffix(event, ": ") {
			t.Errorf("an Event says nothing: %q", event)
		}
	}
	if !told {
		t.Error("no Event says it")
	}
}

// A provider that /api/toggle disabled at the broker of its reservation leaves at its extension.
func TestReplacesWhatIsDisabled(t *testing.T) {
	d := newDesk(t)
	node := d.bound(d.child(d.pool("burst"), "milan", "4"), nil)
	d.pods(2, "2")
	d.bind(node)
	d.look("burst")
	d.clock.SetTime(d.clock.Now().Add(13 * time.Hour))
	for _, c := range []struct {
		via  string
		want vnp.State
	}{{"broker/other", vnp.Ready}, {"", vnp.Leaving}} {
		choose := market.Choose{Consumer: "rome", Via: c.via, Providers: &[]string{"oslo"}}
		if _, err := d.ledger.Do(t.Context(), choose); err != nil {
			t.Fatal(err)
		}
		if got := d.look("burst").Status.Providers[0].State; got != string(c.want) {
			t.Errorf("chosen at %q: it is %s", c.via, got)
		}
	}
}
