package virtualnodepools

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A pool sums up what is wrong with its reservations, by condition and provider: in its conditions, in why, and by
// Events. What is as it should be stays out, and so does what a provider has only begun.
func TestFaultsOfProviders(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	for _, provider := range []string{"oslo", "milan"} {
		d.bound(d.child(pool, provider, "2"), nil)
		d.create(&api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "at-" + provider}})
	}
	says := func(provider, kind string, status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		var i api.ReservationInstruction
		if err := d.Get(t.Context(), client.ObjectKey{Namespace: "bourse", Name: "at-" + provider}, &i); err != nil {
			t.Fatal(err)
		}
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason,
			Message: message, LastTransitionTime: metav1.NewTime(d.clock.Now())})
		if err := d.Status().Update(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(kind, want, message, ready string) {
		t.Helper()
		p := d.look("burst")
		events := d.newEvents()
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		if condition(p, kind) != want || c != nil && c.Message != message || condition(p, api.ConditionReady) != ready {
			t.Errorf("%s: it shows %+v", kind, p.Status.Conditions)
		}
		if p.Status.Why != message {
			t.Errorf("%s: why is %q", kind, p.Status.Why)
		}
		event := "Normal " + kind + " "
		if want != "" {
			_, reason, _ := strings.Cut(want, " ")
			event = "Warning " + kind + " " + reason + ": " + message
		}
		if !slices.ContainsFunc(events, func(one string) bool { return strings.HasPrefix(one, event) }) {
			t.Errorf("%s: no Event begins with %q: %q", kind, event, events)
		}
	}
	const bad, good, met = metav1.ConditionFalse, metav1.ConditionTrue, "True DemandMet"
	for _, kind := range []string{api.ConditionGranted, api.ConditionReflected, api.ConditionPodsComply} {
		says("milan", kind, good, "Fine", "of what is fine nothing is said")
	}
	says("oslo", api.ConditionGranted, bad, "Waiting", "the provider has not answered yet")
	if p := d.look("burst"); p.Status.Why != "" || condition(p, api.ConditionGranted) != "" ||
		condition(p, api.ConditionReflected) != "" || condition(p, api.ConditionReady) != met {
		t.Errorf("while nothing is wrong it shows %+v", p.Status)
	}
	says("oslo", api.ConditionGranted, good, "Granted", "")
	for _, one := range []struct {
		kind   string
		status metav1.ConditionStatus
		reason string
		ready  string
	}{
		{api.ConditionReflected, bad, api.QuotaUsedUp, met}, {api.ConditionPodsComply, bad, "WouldBeRefused", met},
		{api.ConditionGranted, bad, "Waiting", met}, {api.ConditionSuspended, good, "Suspended", "False Suspended"},
		{api.ConditionLabelsDropped, good, "SentByProvider", met},
	} {
		says("oslo", one.kind, one.status, one.reason, "so it is")
		says("milan", one.kind, one.status, one.reason, "as it says")
		if one.reason == "Waiting" {
			d.clock.SetTime(d.clock.Now().Add(2 * time.Minute))
		}
		shows(one.kind, string(one.status)+" "+one.reason, "milan: as it says; oslo: so it is", one.ready)
		mended := good
		if one.status == good {
			mended = bad
		}
		says("oslo", one.kind, mended, "Fine", "")
		says("milan", one.kind, mended, "Fine", "")
		shows(one.kind, "", "", met)
	}
	says("milan", api.ConditionReflected, bad, "Refused", "as it says")
	says("milan", api.ConditionPodsComply, bad, "Refused", "as it says")
	if p := d.look("burst"); p.Status.Why != "milan: as it says" {
		t.Errorf("of two conditions with one text, why is %q", p.Status.Why)
	}
}

// However long the texts of a broker and of providers are, the status has its bounds, and what does not change is not
// written again.
func TestLongTextsOfOthers(t *testing.T) {
	d := newDesk(t)
	pool, long := d.pool("burst"), strings.Repeat("é", 16<<10)
	d.bound(d.child(pool, "milan", "2"), nil)
	i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "at-milan"}}
	d.create(i)
	for _, kind := range []string{api.ConditionOffloaded, api.ConditionReflected, api.ConditionPodsComply} {
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse,
			Reason: "Long", Message: kind + long, LastTransitionTime: metav1.Now()})
	}
	if err := d.Status().Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	d.pods(3, "2")
	d.miss = &api.Miss{Cluster: long, Filter: long, Message: long}
	first := d.look("burst")
	const most = 4 << 10
	if n := len(first.Status.Why); n > most || n < most/2 {
		t.Errorf("why has %d bytes", n)
	}
	for _, c := range first.Status.Conditions {
		if len(c.Message) > most {
			t.Errorf("%s has %d bytes", c.Type, len(c.Message))
		}
	}
	counted := &statusWrites{Client: d.Client}
	d.options.Client = counted
	if d.look("burst"); counted.number > 0 {
		t.Error("the same is written again")
	}
}

// statusWrites counts how often a status is written.
type statusWrites struct {
	client.Client
	number int
}

func (w *statusWrites) Status() client.SubResourceWriter {
	w.number++
	return w.Client.Status()
}

// Events say what becomes of a provider that is not needed any more, with the amounts.
func TestEventsOfAPoolThatShrinks(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	later := func() {
		d.look("burst")
		d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
		d.look("burst")
	}
	has := func(want string) {
		t.Helper()
		if all := d.newEvents(); !slices.Contains(all, want) {
			t.Errorf("no Event is %q: %q", want, all)
		}
	}
	node := d.bound(d.child(pool, "milan", "8"), nil)
	d.pods(2, "2")
	d.bind(node)
	later()
	d.lower(node, resources("4"))
	d.look("burst")
	has("Normal Resized milan is asked for cpu=4 memory=4Gi instead of cpu=8 memory=8Gi")
	d.bound(&d.requests()[0], nil)
	for _, name := range []string{"web-0", "web-1"} {
		if err := d.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	later()
	has("Normal Leaves milan is given back once its pods have left")
	d.cordon(node)
	d.look("burst")
	if left := d.requests(); len(left) > 0 {
		t.Errorf("it stays: %+v", left)
	}
	none := d.child(pool, "oslo", "2")
	d.bound(none, func(r *market.Reservation) { r.State = api.Reserved })
	if err := d.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: market.SliceName("rome", "oslo", api.GeneralPool)}}); err != nil {
		t.Fatal(err)
	}
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Providers.Exclude = []string{"oslo"} })
	d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	d.look("burst")
	has("Normal Leaves oslo is given back: no pod ran there")
}

// Of two faults of which one contains the text of the other, both are shown, and each of them once.
func TestFaultsThatContainEachOther(t *testing.T) {
	long, short := fault{"milan", "Refused", "no GPU is free"}, fault{"milan", "Refused", "no GPU"}
	c := &children{faults: map[string][]fault{api.ConditionGranted: {long, short}, api.ConditionReflected: {long}}}
	_, more := c.showFaults(&[]metav1.Condition{}, []string{"milan: no GPU is free in May"},
		func(string, bool, string, string, string) {})
	if want := []string{"milan: no GPU is free", "milan: no GPU"}; !slices.Equal(more, want) {
		t.Errorf("it shows %q, want %q", more, want)
	}
}
