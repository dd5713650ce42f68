package virtualnodepools

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// What is replaced lasts until its pods have moved.
func TestWhatIsReplacedLasts(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	d.bind(d.bound(d.child(pool, "milan", "2"), nil))
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Template.Where, s.Replace = `region == "eu"`, api.ReplaceOnDrift })
	d.eliminated = []api.Elimination{{Filter: "where", Reason: "WhereFalse", Count: 1}}
	for _, left := range []time.Duration{3*time.Hour - time.Minute, time.Hour, time.Minute} {
		d.clock.SetTime(d.began.Go().Add(24*time.Hour - left))
		p := d.look("burst")
		if p.Status.Providers[0].State != string(vnp.Leaving) || d.requests()[0].Spec.Duration == nil {
			t.Errorf("with %s left: it is %s, and asked to last %v", left, p.Status.Providers[0].State, d.requests()[0].Spec.Duration)
		}
	}
}

// shrinks returns a pool with a request of 8 CPU at milan, whose virtual node is to have 2.
func shrinks(t *testing.T) (*desk, *api.VirtualNodePool, *api.ResourceRequest, amounts.List) {
	t.Helper()
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	small, _ := amounts.ParseRequest("", resources("2"))
	first := d.child(pool, "milan", "8")
	first.Annotations[vnp.WishAnnotation] = vnp.WriteWish(small)
	if err := d.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	return d, pool, first, small
}

// A smaller size that a provider refuses is not asked for again at once.
func TestASmallerSizeThatIsRefused(t *testing.T) {
	d, _, first, small := shrinks(t)
	first.Spec.Resources = resources("2")
	if err := d.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	node := d.bound(first, func(r *market.Reservation) {
		r.Size, _ = amounts.ParseRequest("", resources("8"))
		r.Change = &market.Change{Generation: 2, Size: small, Until: r.Until, Reason: api.ReasonPolicy}
		r.Changed = d.began
	})
	d.bind(node)
	d.lower(node, resources("2"))
	before := d.requests()[0].Generation
	for range 30 {
		d.clock.SetTime(d.clock.Now().Add(time.Second))
		d.look("burst")
	}
	if got := d.requests()[0]; got.Generation > before+2 || got.Annotations[vnp.WishAnnotation] != "" {
		t.Errorf("in 30 s it was edited %d times, to %s; wish %q; paused until %s", got.Generation-before,
			got.Spec.Resources.Cpu(), got.Annotations[vnp.WishAnnotation], d.Controller.pools["burst"].paused["milan"].until.Sub(d.clock.Now()))
	}
}

// A pod of a DaemonSet does not keep a pool from becoming smaller, or the pool keeps what it has.
func TestShrinksBesideADaemonSet(t *testing.T) {
	d, pool, first, _ := shrinks(t)
	node := d.bound(first, nil)
	d.bind(node)
	d.lower(node, resources("2"))
	d.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: pool.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: resources("1")}}}},
	})
	for range 30 {
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		d.look("burst")
	}
	if got := d.requests()[0]; got.Annotations[vnp.WishAnnotation] != "" && got.Spec.Resources.Cpu().Value() != 2 {
		t.Errorf("after half an hour it has %s, and wishes for %s", got.Spec.Resources.Cpu(), got.Annotations[vnp.WishAnnotation])
	}
}

// What a provider refused is asked for again once its pause is over: the old refusal is no answer to that.
func TestAnOldRefusal(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("8")}}
	first := d.child(pool, "milan", "2")
	more, _ := amounts.ParseRequest("", resources("6"))
	d.pods(1, "4")
	d.bound(first, func(r *market.Reservation) {
		r.Change = &market.Change{Generation: 2, Size: more, Until: r.Until, Reason: api.ReasonNoAnswer}
	})
	first.Spec.Resources = resources("6")
	if err := d.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	d.look("burst") // it was refused
	d.look("burst")
	if got := d.requests()[0].Spec.Resources.Cpu().Value(); got != 2 {
		t.Fatalf("it asks for %d", got)
	}
	for range 60 {
		if d.clock.SetTime(d.clock.Now().Add(30 * time.Second)); d.requests()[0].Spec.Resources.Cpu().Value() == 6 {
			break
		}
		d.look("burst")
	}
	asks := d.requests()[0].Spec.Resources.Cpu().String()
	d.look("burst") // before the controller of requests looked at it
	d.look("burst")
	if got := d.requests()[0].Spec.Resources.Cpu().Value(); got != 6 {
		t.Errorf("it asked for %s, and then for %d; its pause is %s", asks, got, d.Controller.pools["burst"].paused["milan"].next)
	}
}
