package virtualnodepools

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
)

// A pool names the namespaces whose pods run at no provider, all at once, and why. What its requests say of the
// others is said, too. Nothing is reserved for pods of a namespace whose name is too long for every provider.
func TestNamespacesThatAreNotOffloaded(t *testing.T) {
	d := newDesk(t)
	long, second := strings.Repeat("m", 59), strings.Repeat("n", 59)
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "burst"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"m07", "team", "ghost", second, long}, Max: resources("20")}}
	d.create(pool)
	d.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: long}})
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: long, Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: resources("1")}}}}}
	d.create(waits)
	waits.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.NewTime(d.clock.Now().AddDate(0, 0, -1)),
	}}}
	if err := d.Status().Update(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	for provider, says := range map[string][2]string{
		"milan": {"Failed", `namespaces "m07" not found`}, "oslo": {"WouldOffloadOthers", "it would offload others"},
	} {
		d.bound(d.child(pool, provider, "2"), nil)
		i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "at-" + provider}}
		d.create(i)
		i.Status.Conditions = []metav1.Condition{{Type: api.ConditionOffloaded, Status: metav1.ConditionFalse,
			Reason: says[0], Message: says[1], LastTransitionTime: metav1.Now()}}
		if err := d.Status().Update(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	p := d.look("burst")
	says := ptr.Deref(meta.FindStatusCondition(p.Status.Conditions, api.ConditionOffloaded), metav1.Condition{}).Message
	for _, part := range []string{"do not exist: ghost, m07: create", long + ", " + second, "; oslo: it would offload others"} {
		if !strings.Contains(says, part) || !strings.Contains(p.Status.Why, part) {
			t.Errorf("it says nothing of %q: %q, and why %q", part, says, p.Status.Why)
		}
	}
	if condition(p, api.ConditionReady) != "False NotOffloaded" ||
		condition(p, api.ConditionOffloaded) != "False NotOffloaded" || strings.Contains(says, "milan") ||
		!p.Status.Demand.Cpu().IsZero() {
		t.Errorf("it shows %+v", p.Status)
	}
	d.newEvents()
	d.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ghost"}})
	d.look("burst")
	if all := d.newEvents(); len(all) > 0 {
		t.Errorf("the same condition with another text has Events: %q", all)
	}
	d.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "m07"}})
	var i api.ReservationInstruction
	for _, provider := range []string{"milan", "oslo"} {
		i.Namespace, i.Name = "bourse", "at-"+provider
		if err := d.Delete(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
	}
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Namespaces = s.Namespaces[:3] })
	if p = d.look("burst"); condition(p, api.ConditionOffloaded) != "True Offloaded" ||
		condition(p, api.ConditionReady) != "True DemandMet" {
		t.Errorf("then it shows %+v", p.Status)
	}
}

// An Event says what changed, in words, and is a warning only if something is wrong. Without a change there is none.
func TestEventsOfAPool(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	has := func(all []string, one string) {
		t.Helper()
		if !slices.Contains(all, one) {
			t.Errorf("no Event is %q: %q", one, all)
		}
	}
	d.look("burst")
	if all := d.newEvents(); len(all) > 0 {
		t.Errorf("a new pool without demand has Events: %q", all)
	}
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	d.pods(2, "2")
	d.look("burst")
	all := d.newEvents()
	has(all, "Normal Asked milan is asked for cpu=4 memory=4Gi")
	has(all, "Normal Ready Growing: more is being reserved")
	d.bind(d.bound(&d.requests()[0], nil))
	d.look("burst")
	has(d.newEvents(), "Normal Ready DemandMet: what its pods need is reserved")
	for range 3 {
		d.look("burst")
	}
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where = "false" })
	d.look("burst")
	all = append(all, d.newEvents()...)
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where = "" })
	d.look("burst")
	all = append(all, d.newEvents()...)
	has(all, "Normal Drifted AsTheTemplate: each provider is as the template says")
	for _, one := range all {
		if strings.HasSuffix(one, ": ") || strings.HasPrefix(one, "Warning Ready Growing") {
			t.Errorf("an Event is %q", one)
		}
	}
	if len(all) > 8 {
		t.Errorf("%d Events: %q", len(all), all)
	}
}
