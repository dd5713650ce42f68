package virtualnodepools

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The pods of a hub's customers, which are not in the pool's namespaces, are used, and are ended with a
// dead provider.
func TestPodsOfCustomers(t *testing.T) {
	d := newDesk(t)
	t.Cleanup(func() { unobserve("upstream") })
	p := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "upstream"}, Spec: api.VirtualNodePoolSpec{
		Demand: api.DemandFixed, Min: resources("8"), Max: resources("8"), Template: api.ReservationTemplate{Relend: true},
	}}
	d.create(p)
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	d.look("upstream")
	r := d.requests()[0]
	if !r.Spec.Relend {
		t.Errorf("it asks for %+v", r.Spec)
	}
	node := d.bound(&r, nil)
	d.pods(3, "1")
	d.bind(node)
	d.used = map[string]api.Resources{node: resources("3")}
	if p = d.look("upstream"); p.Status.CPU != "3/8/8" || condition(p, api.ConditionReady) != "True DemandMet" {
		t.Errorf("it shows %+v", p.Status)
	}
	oslo := d.child(p, "oslo", "8")
	d.bound(oslo, nil)
	d.unready(node)
	d.look("upstream")
	d.clock.SetTime(d.clock.Now().Add(4 * time.Minute))
	d.look("upstream")
	d.look("upstream")
	var left corev1.PodList
	if err := d.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
	if names := d.requests(); len(names) != 1 || names[0].Spec.Target != "oslo" {
		t.Errorf("these requests are left: %+v", names)
	}
}

// unready makes a virtual node NotReady.
func (d *desk) unready(name string) {
	d.t.Helper()
	var node corev1.Node
	if err := d.Get(d.t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		d.t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(d.clock.Now()),
	}}
	if err := d.Status().Update(d.t.Context(), &node); err != nil {
		d.t.Fatal(err)
	}
}
