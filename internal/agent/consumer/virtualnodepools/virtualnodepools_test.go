package virtualnodepools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// Pods that wait make a request; their end ends it, after the virtual node was emptied.
func TestAPoolFollowsItsPods(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	d.pods(4, "2")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	p := d.look("burst")
	made := d.requests()
	if len(made) != 1 || len(d.asked) != 1 {
		t.Fatalf("it made %+v, and asked %+v", made, d.asked)
	}
	r := made[0]
	if r.Spec.Target != "milan" || r.Spec.Resources.Cpu().String() != "8" ||
		r.Spec.MaxPrice != nil || r.Spec.Offload != nil ||
		!metav1.IsControlledBy(&r, p) || !strings.HasPrefix(r.Name, "burst-") || len(r.Name) != len("burst-")+5 {
		t.Errorf("it asks for %+v", r)
	}
	if condition(p, api.ConditionReady) != "False Growing" || p.Status.Pending.Counted != 4 {
		t.Errorf("it shows %+v", p.Status)
	}
	d.look("burst")
	if len(d.requests()) != 1 || d.offloads != 1 {
		t.Errorf("it asks again: %+v, or offloads %d times", d.requests(), d.offloads)
	}
	node := d.bound(&r, nil)
	d.bind(node)
	p = d.look("burst")
	if condition(p, api.ConditionReady) != "True DemandMet" ||
		p.Status.CPU != "8/8/20" || p.Status.Memory != "8Gi/8Gi/20Gi" ||
		p.Status.InUse != 1 || p.Status.Providers[0].Node != node || p.Status.Providers[0].State != "Ready" {
		t.Errorf("it shows %+v", p.Status)
	}

	for i := range 4 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("web-%d", i)}}
		if err := d.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	d.look("burst")
	if d.requests()[0].Annotations[vnp.DrainAnnotation] != "" {
		t.Error("it ends at once")
	}
	d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	d.look("burst")
	if d.requests()[0].Annotations[vnp.DrainAnnotation] != "true" || len(d.served) != 1 {
		t.Fatalf("it does not drain: %+v, %v", d.requests(), d.served)
	}
	d.look("burst")
	if len(d.requests()) != 1 {
		t.Fatal("it ends before its virtual node is cordoned")
	}
	d.cordon(node)
	d.look("burst")
	if len(d.requests()) != 0 {
		t.Errorf("it stays: %+v", d.requests())
	}
}

// A pod that came while the virtual node was about to go keeps it.
func TestAPodThatCameKeepsTheNode(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	r := d.child(pool, "milan", "4")
	node := d.bound(r, nil)
	d.look("burst")
	d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	d.look("burst")
	if d.requests()[0].Annotations[vnp.DrainAnnotation] != "true" {
		t.Fatal("it does not drain")
	}
	d.pods(2, "2")
	d.bind(node)
	d.look("burst")
	if got := d.requests(); len(got) != 1 || got[0].Annotations[vnp.DrainAnnotation] != "" {
		t.Errorf("it still goes: %+v", got)
	}
}

// It becomes smaller in two steps, and lasts.
func TestShrinksAndExtends(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	r := d.child(pool, "milan", "8")
	node := d.bound(r, nil)
	d.pods(2, "2")
	d.bind(node)
	d.look("burst")
	d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	d.look("burst")
	if got := d.requests()[0]; vnp.ReadWish(&got).Of("cpu") != 4000 || got.Spec.Resources.Cpu().Value() != 8 {
		t.Fatalf("first the virtual node: %+v", got)
	}
	d.lower(node, resources("4"))
	d.look("burst")
	if got := d.requests()[0]; got.Spec.Resources.Cpu().Value() != 4 {
		t.Fatalf("then the reservation: %+v", got)
	}
	d.bound(&d.requests()[0], nil)
	if d.look("burst"); d.requests()[0].Annotations[vnp.WishAnnotation] != "" {
		t.Error("the wish stays")
	}
	d.clock.SetTime(d.clock.Now().Add(12 * time.Hour))
	d.look("burst")
	got := d.requests()[0]
	if left := got.Spec.Duration; left == nil || left.Duration < 36*time.Hour || left.Duration > 37*time.Hour {
		t.Fatalf("it lasts %s", left)
	}
	d.look("burst")
	if again := d.requests()[0]; again.Generation != got.Generation {
		t.Error("it asks for an extension twice")
	}
}

// A provider that refuses is not asked again for a while. One that has a request is asked.
func TestAvoids(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	r := d.child(pool, "milan", "2")
	r.Status.State = api.Rejected
	if err := d.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	other := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "own"}}
	other.Spec.Target, other.Spec.Resources = "oslo", resources("1")
	d.create(other)
	d.bound(other, nil)
	d.look("burst")
	if len(d.requests()) != 0 {
		t.Fatalf("what was refused stays: %+v", d.requests())
	}
	d.asked = nil
	p := d.look("burst")
	if len(d.requests()) != 0 || len(d.asked) != 1 || fmt.Sprint(d.asked[0].Request.Exclude) != "[milan]" {
		t.Errorf("it asks %+v", d.asked)
	}
	if condition(p, api.ConditionLimited) != "True NoCandidate" || p.Status.Why == "" {
		t.Errorf("it shows %+v", p.Status)
	}
	d.clock.SetTime(d.clock.Now().Add(6 * time.Minute))
	if d.look("burst"); len(d.requests()) != 1 {
		t.Error("it asks no more")
	}
}

// A provider that another pool asked serves it alone, also before it answered.
func TestTwoPoolsAtOneProvider(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	other := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"work"}, Max: resources("20")}}
	d.create(other)
	d.child(other, "milan", "2")
	d.pods(1, "2")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	p := d.look("burst")
	if got := fmt.Sprint(d.asked[0].Request.Exclude); got != "[milan]" || len(d.requests()) != 1 ||
		condition(p, api.ConditionLimited) != "True NoCandidate" {
		t.Errorf("it excludes %s, and makes %+v", got, d.requests())
	}
	// The cache does not know the other request yet.
	all := &children{requests: map[string]*child{}}
	for provider, want := range map[string]bool{"milan": false, "oslo": true} {
		fresh, err := d.isFresh(t.Context(), p, all, []vnp.Step{{Verb: vnp.Create, Provider: provider}})
		if err != nil || fresh != want {
			t.Errorf("at %s: %v, %v", provider, fresh, err)
		}
	}
}

// volume makes a bound claim of namespace team with its data at a virtual node.
func (d *desk) volume(name, node string) {
	d.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name,
		Annotations: map[string]string{"volume.kubernetes.io/selected-node": node}}}
	d.create(claim)
	claim.Status.Phase = corev1.ClaimBound
	if err := d.Status().Update(d.t.Context(), claim); err != nil {
		d.t.Fatal(err)
	}
}

// The deletion of a pool waits until its virtual nodes are empty, and for a word about volumes.
func TestDeletingAPoolDrains(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	pool := d.look("burst")
	r := d.child(pool, "milan", "4")
	node := d.bound(r, nil)
	d.volume("data", node)
	d.volume("more", node)
	if err := d.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	p := d.look("burst")
	d.backwards = true
	if again := d.look("burst"); again.Status.Why != p.Status.Why {
		t.Fatalf("in another order of the claims it shows %q instead of %q", again.Status.Why, p.Status.Why)
	}
	_, word, found := strings.Cut(p.Status.Why, "bourse vnp stop burst --volumes-die ")
	if !found || !strings.Contains(p.Status.Why, "team/data") || d.requests()[0].Annotations[vnp.DrainAnnotation] != "" {
		t.Fatalf("it shows %q", p.Status.Why)
	}
	before := p.DeepCopy()
	p.Annotations = map[string]string{api.VolumesMayDie: word}
	if err := d.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	d.look("burst")
	d.cordon(node)
	d.look("burst")
	if len(d.requests()) != 0 {
		t.Errorf("its request stays: %+v", d.requests())
	}
	if p := d.look("burst"); p != nil {
		t.Errorf("it stays: %+v", p)
	}
}

// A pool whose spec cannot be ends as any other, also after a restart of the agent.
func TestDeletingAnInvalidPool(t *testing.T) {
	for name, restarts := range map[string]bool{"known": false, "after a restart": true} {
		d := newDesk(t)
		d.pool("burst")
		d.child(d.look("burst"), "milan", "4")
		d.edit(d.look("burst"), func(s *api.VirtualNodePoolSpec) { s.Min = resources("21") })
		p := d.look("burst")
		if condition(p, api.ConditionReady) != "False Invalid" || len(d.requests()) != 1 {
			t.Fatalf("%s: it shows %+v", name, p.Status)
		}
		if restarts {
			d.forget("burst")
		}
		if err := d.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		d.look("burst")
		if p := d.look("burst"); p != nil || len(d.requests()) != 0 {
			t.Errorf("%s: it stays: %+v, with %+v", name, p, d.requests())
		}
	}
}

// A namespace is in the oldest pool that names it, and a spec that cannot be says why.
func TestShowsWhatIsWrong(t *testing.T) {
	d := newDesk(t)
	d.pool("a")
	d.pool("burst")
	if p := d.look("burst"); condition(p, api.ConditionNamespaceTaken) != "True Taken" {
		t.Errorf("it shows %+v", p.Status)
	}
	bad := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "bad"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"x"}, Max: resources("1"), Min: resources("2")}}
	d.create(bad)
	if p := d.look("bad"); condition(p, api.ConditionReady) != "False Invalid" ||
		!strings.Contains(p.Status.Why, "more than max") {
		t.Errorf("it shows %+v", p.Status)
	}
	d.away = true
	d.pods(1, "1")
	if p := d.look("a"); condition(p, api.ConditionLimited) != "True BrokerUnavailable" || len(d.asked) != 0 {
		t.Errorf("it shows %+v", p.Status)
	}
}

func (d *desk) lower(name string, to api.Resources) {
	d.t.Helper()
	var node corev1.Node
	if err := d.Get(d.t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		d.t.Fatal(err)
	}
	node.Status.Allocatable = to
	if err := d.Status().Update(d.t.Context(), &node); err != nil {
		d.t.Fatal(err)
	}
}
