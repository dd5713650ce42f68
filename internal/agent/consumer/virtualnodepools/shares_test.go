package virtualnodepools

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// hasRequest gives namespace work a request that is bound at milan, and returns its virtual node.
func (d *desk) hasRequest(size api.Resources) string {
	d.t.Helper()
	other := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "own"}}
	other.Spec.Target, other.Spec.Resources = "milan", size
	d.create(other)
	return d.bound(other, func(r *market.Reservation) { r.ID = "own" })
}

// A request of a thousandth of a CPU does not stop a pool at its provider. The pool grows there further while the
// virtual node is closed to its namespace, because that used some of the request's.
func TestGrowsBesideARequest(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	node := d.hasRequest(api.Resources{"cpu": resource.MustParse("1m")})
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("4")}}
	d.pods(6, "1")
	d.look("burst")
	all := d.requests()
	if len(all) != 1 || all[0].Spec.Target != "milan" || all[0].Spec.Resources.Cpu().Value() != 4 {
		t.Fatalf("it makes %+v", all)
	}
	if at := d.bound(&all[0], nil); at != node {
		t.Fatalf("its virtual node is %s, that of the request %s", at, node)
	}
	i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "at-milan"}}
	d.create(i)
	i.Status.Conditions = []metav1.Condition{{Type: api.ConditionOffloaded, Status: metav1.ConditionTrue,
		Reason: "Offloaded", LastTransitionTime: metav1.Now()}}
	if err := d.Status().Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	d.bind(node, "web-0", "web-1", "web-2", "web-3")
	var closed corev1.Node
	if err := d.Get(t.Context(), client.ObjectKey{Name: node}, &closed); err != nil {
		t.Fatal(err)
	}
	delete(closed.Labels, offload.Label("team"))
	if err := d.Update(t.Context(), &closed); err != nil {
		t.Fatal(err)
	}
	p := d.look("burst")
	if all = d.requests(); len(all) != 1 || all[0].Spec.Resources.Cpu().Value() != 6 {
		t.Errorf("it asks for %+v, and shows %+v", all[0].Spec.Resources, p.Status)
	}
}

// A virtual node that a request shares becomes smaller by what the pool gives back, and is not emptied when the pool
// leaves: the pods of the request stay.
func TestShrinksAndLeavesBesideARequest(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	node := d.hasRequest(resources("2"))
	d.bound(d.child(pool, "milan", "8"), nil)
	d.lower(node, resources("10"))
	d.pods(2, "2")
	d.bind(node)
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "theirs"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(resources("2"))}}}}}
	d.create(theirs)
	d.look("burst")
	d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	d.look("burst")
	if got := d.requests()[0]; vnp.ReadWish(&got).Of("cpu") != 4000 {
		t.Fatalf("first the virtual node: %+v", got)
	}
	if d.look("burst"); d.requests()[0].Spec.Resources.Cpu().Value() != 8 {
		t.Error("it signs less before the virtual node is smaller")
	}
	d.lower(node, resources("6"))
	if d.look("burst"); d.requests()[0].Spec.Resources.Cpu().Value() != 4 {
		t.Fatalf("then the reservation: %+v", d.requests()[0])
	}
	if err := d.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	d.look("burst")
	if all := d.newEvents(); !slices.Contains(all, "Normal Leaves milan is given back; requests keep the virtual node") {
		t.Errorf("no Event says that it leaves: %q", all)
	}
	if left := d.requests(); len(left) > 0 {
		t.Errorf("its request stays: %+v", left)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("the pod of the request: %v", err)
	}
}

// child makes a request of a pool, as the controller does.
func (d *desk) child(pool *api.VirtualNodePool, provider, cpu string) *api.ResourceRequest {
	d.t.Helper()
	size, _ := amounts.ParseRequest("", resources(cpu))
	if err := d.Controller.create(d.t.Context(), pool, vnp.Step{Provider: provider, Size: size}, nil); err != nil {
		d.t.Fatal(err)
	}
	for _, r := range d.requests() {
		if r.Spec.Target == provider {
			return &r
		}
	}
	return nil
}
