package virtualnodepools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// What a pool shows is in its metrics, until it is gone, and each turn of a condition is an Event.
func TestMetricsAndEvents(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	node := d.bound(d.child(pool, "milan", "4"), nil)
	d.pods(2, "2")
	d.bind(node)
	d.look("burst")
	for what, c := range map[string]struct{ is, want float64 }{
		"used":     {testutil.ToFloat64(sizes.WithLabelValues("burst", "used", "cpu")), 4},
		"reserved": {testutil.ToFloat64(sizes.WithLabelValues("burst", "reserved", "cpu")), 4},
		"demand":   {testutil.ToFloat64(sizes.WithLabelValues("burst", "demand", "cpu")), 4},
		"Ready":    {testutil.ToFloat64(inUse.WithLabelValues("burst", "Ready")), 1},
		"Counted":  {testutil.ToFloat64(pending.WithLabelValues("burst", "Counted")), 0},
	} {
		if c.is != c.want {
			t.Errorf("%s is %g, want %g", what, c.is, c.want)
		}
	}
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where = "false" })
	d.look("burst")
	close(d.events.Events)
	drifted := 0
	for event := range d.events.Events {
		if strings.Contains(event, "Drifted OtherTemplate: ") && strings.HasPrefix(event, "Warning") {
			drifted++
		}
	}
	if drifted != 1 {
		t.Errorf("it tells %d times that it drifted", drifted)
	}
	d.forget("burst")
	if n := testutil.CollectAndCount(inUse); n != 0 {
		t.Errorf("%d metrics stay", n)
	}
}

// What the broker's caps refuse is said so.
func TestCapReached(t *testing.T) {
	d := newDesk(t)
	r := d.child(d.pool("burst"), "milan", "2")
	d.pods(4, "2")
	r.Status.Conditions = []metav1.Condition{{Type: api.ConditionReserved, Status: metav1.ConditionFalse,
		Reason: string(api.CodeCapReached), Message: "rome has 10 reservations", LastTransitionTime: metav1.Now()}}
	if err := d.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if p := d.look("burst"); condition(p, api.ConditionLimited) != "True CapReached" || p.Status.Why != "rome has 10 reservations" {
		t.Errorf("it shows %+v", p.Status)
	}
}

// The status names the providers that map no more of the namespaces, and says it where demand is not met.
func TestNamespacesFull(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	const says = "maps at most 1 namespaces of a consumer, and 1 are mapped already: team cannot be"
	instructions := map[string]*api.ReservationInstruction{}
	for _, provider := range []string{"oslo", "milan"} {
		d.bound(d.child(pool, provider, "2"), nil)
		i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "at-" + provider}}
		d.create(i)
		i.Status.Conditions = []metav1.Condition{{Type: api.ConditionOffloaded, Status: metav1.ConditionFalse,
			Reason: string(api.CodeNamespacesFull), Message: "NamespacesFull: " + provider + " " + says,
			LastTransitionTime: metav1.Now()}}
		if err := d.Status().Update(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		instructions[provider] = i
	}
	full := func(p *api.VirtualNodePool) string {
		c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionNamespacesFull)
		return ptr.Deref(c, metav1.Condition{}).Message
	}
	p := d.look("burst")
	if want := "milan " + says + "; oslo " + says; condition(p, api.ConditionNamespacesFull) != "True Full" ||
		full(p) != want || p.Status.Why != "" {
		t.Errorf("it shows %q, and why %q", full(p), p.Status.Why)
	}
	d.pods(3, "2")
	if p = d.look("burst"); !strings.HasSuffix(p.Status.Why, "; "+full(p)) {
		t.Errorf("where demand is not met, it shows why %q", p.Status.Why)
	}
	for _, i := range instructions {
		i.Status.Conditions[0].Status, i.Status.Conditions[0].Reason = metav1.ConditionTrue, "Offloaded"
		if err := d.Status().Update(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if p = d.look("burst"); condition(p, api.ConditionNamespacesFull) != "False NotFull" ||
		full(p) != "each provider maps all its namespaces" {
		t.Errorf("once they have room, it shows %q", full(p))
	}
}

// A larger size that exceeds the cap of this cluster is said so. Its provider is not paused: once the cap is
// raised, it gives more.
func TestCapReachedByGrowth(t *testing.T) {
	d := newDesk(t)
	r := d.child(d.pool("burst"), "milan", "2")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	d.pods(1, "4")
	bound := func(change *market.Change) { d.bound(r, func(r *market.Reservation) { r.Change = change }) }
	bound(nil)
	d.look("burst")
	asks := func(want int64) {
		t.Helper()
		if got := d.requests()[0].Spec.Resources.Cpu().Value(); got != want {
			t.Fatalf("it asks for %d CPUs, want %d", got, want)
		}
	}
	asks(6)
	size, _ := amounts.ParseRequest("", resources("6"))
	bound(&market.Change{Generation: 2, Size: size, Until: market.At(d.clock.Now().Add(48 * time.Hour)),
		Reason: api.ReasonCapReached, Message: "CapReached: rome has 10 CPUs"})
	d.clock.SetTime(d.ledger.Now().Go())
	for range 3 {
		p := d.look("burst")
		asks(2)
		if condition(p, api.ConditionLimited) != "True CapReached" || p.Status.Why != "rome has 10 CPUs" {
			t.Fatalf("it shows %+v", p.Status)
		}
	}
	d.clock.SetTime(d.clock.Now().Add(market.RetryTime + time.Second))
	for range 3 { // the earlier refusal says no more about what is asked for now
		d.look("burst")
		asks(6)
	}
	r = &d.requests()[0]
	bound(nil)
	if p := d.look("burst"); condition(p, api.ConditionLimited) != "False NotLimited" ||
		p.Status.Providers[0].Reserved.Cpu().Value() != 6 {
		t.Errorf("it shows %+v", p.Status)
	}
}

// What the Ledger still has of a pool is shown until the provider has freed it, though its request is gone.
func TestWhatEndsIsShown(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	r := d.child(pool, "milan", "4")
	d.bound(r, nil)
	d.bound(d.child(d.pool("burst-short"), "oslo", "3"), nil) // of another pool, and gone as well
	own := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "burst-abcde"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Target: "turin", Resources: resources("2")}}}
	d.create(own) // an admin's, with such a name
	d.bound(own, nil)
	for _, one := range d.requests() {
		if one.Name == own.Name {
			continue
		}
		if err := d.Delete(t.Context(), &one); err != nil {
			t.Fatal(err)
		}
	}
	note := func(change func(*market.Reservation)) {
		t.Helper()
		var next market.Reservation
		if err := d.ledger.Read(t.Context(), func(s *market.State) { next = *s.Reservation("at-milan") }); err != nil {
			t.Fatal(err)
		}
		change(&next)
		if _, err := d.ledger.Do(t.Context(), market.Note{Reservation: &next}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(when string) {
		t.Helper()
		s := d.look("burst").Status
		if len(s.Providers) != 1 || s.Providers[0].Name != "milan" || s.Providers[0].State != string(vnp.Leaving) ||
			s.Providers[0].Request != r.Name || s.CPU != "0/4/20" {
			t.Errorf("%s it shows %+v", when, s)
		}
	}
	shows("before the release")
	note(func(r *market.Reservation) { r.State, r.Acceptance = api.Releasing, "acceptance" })
	shows("while it ends")
	note(func(r *market.Reservation) { r.State = api.Released })
	if s := d.look("burst").Status; len(s.Providers) != 0 || s.CPU != "0/0/20" {
		t.Errorf("once it has ended it shows %+v", s)
	}
}

// A pool says that pods wait which it cannot serve, although it has all that it needs.
func TestSaysWhichPodsItCannotServe(t *testing.T) {
	d := newDesk(t)
	d.pods(2, "2")
	d.pool("burst")
	for i := range 2 {
		pod := corev1.Pod{}
		if err := d.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: fmt.Sprintf("web-%d", i)}, &pod); err != nil {
			t.Fatal(err)
		}
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		if err := d.Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	p := d.look("burst")
	if want := "2 pods wait that it cannot serve, such as team/web-0: its node selector"; !strings.HasPrefix(p.Status.Why, want) {
		t.Errorf("why is %q, want %q", p.Status.Why, want)
	}
	ready := meta.FindStatusCondition(p.Status.Conditions, api.ConditionReady)
	if ready.Status != metav1.ConditionTrue || ready.Message != p.Status.Why {
		t.Errorf("it is %+v", ready)
	}
	d.clock.SetTime(d.clock.Now().Add(-time.Minute + time.Second)) // they wait for a second
	if p = d.look("burst"); p.Status.Why != "" {
		t.Errorf("of pods that count soon it says %q", p.Status.Why)
	}
}
