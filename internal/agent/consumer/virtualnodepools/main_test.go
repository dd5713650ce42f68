package virtualnodepools

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// desk is rome's controller, over an API server, with a broker that the test plays.
type desk struct {
	*Controller
	client.Client
	t          *testing.T
	ledger     *exchange.Exchange
	began      market.Time // of the clock: that of the Ledger goes on
	clock      *testclock.FakePassiveClock
	fits       []api.Fit
	asked      []api.EvaluationCreate
	served     []string
	away       bool
	grown      int64
	far        map[string]time.Duration
	used       map[string]api.Resources // of virtual nodes
	backwards  bool                     // lists of claims are reversed: a cache has no order
	failed     error                    // of each ask
	eliminated []api.Elimination
	miss       *api.Miss
	clusters   map[string]api.Cluster
	offloads   int
	events     *events.FakeRecorder
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	ours := func(kind, resource string, namespaced bool) kubeapi.Type {
		return kubeapi.Type{GroupVersion: api.GroupVersion, Kind: kind, Resource: resource,
			Namespaced: namespaced, Status: true}
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		ours("ResourceRequest", "resourcerequests", true), ours("VirtualNodePool", "virtualnodepools", false),
		ours("ReservationInstruction", "reservationinstructions", true),
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims",
			Namespaced: true, Status: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{
		Client: c, t: t, ledger: exchangetest.Open(t, nil, exchange.Options{Self: "rome"}),
		events: events.NewFakeRecorder(100),
	}
	for _, name := range []string{"team", "work"} {
		d.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	d.began = d.ledger.Now()
	d.clock = testclock.NewFakePassiveClock(d.began.Go())
	d.Controller = New(Options{
		Client: c, Reader: c, Market: d.ledger, Namespace: "bourse", Events: d.events, Times: Times{Clock: d.clock},
		Brokers: d, Pods: d,
		Serve:   func(provider string) { d.served = append(d.served, provider) },
		Offload: func(context.Context) error { d.offloads++; return nil },
	})
	return d
}

// FitAt, Reached, Grown and OnHeard are the broker that the test plays.
func (d *desk) FitAt(_ context.Context, _ string, q api.EvaluationCreate) (api.Evaluation, error) {
	d.asked = append(d.asked, q)
	if d.failed != nil {
		return api.Evaluation{}, d.failed
	}
	out := &api.Fits{}
	for _, fit := range d.fits {
		if slices.Contains(q.Request.Exclude, fit.Cluster) {
			continue
		}
		if out.Qualified++; len(out.Clusters) == int(q.Fits) {
			continue
		}
		for range q.Pods {
			fit.Pods = append(fit.Pods, 100)
		}
		out.Clusters = append(out.Clusters, fit)
	}
	return api.Evaluation{Fits: out, Decision: api.Decision{Eliminated: d.eliminated, NearestMiss: d.miss}}, nil
}

func (d *desk) Latency(_ context.Context, provider string) (time.Duration, error) {
	return d.far[provider], nil
}

func (d *desk) Cluster(_ context.Context, id string) (api.Envelope[api.Cluster], error) {
	return api.Envelope[api.Cluster]{ID: id, Payload: d.clusters[id]}, nil
}

func (d *desk) UsedOn(node string) api.Resources { return d.used[node] }

func (d *desk) Reached() bool          { return !d.away }
func (d *desk) Grown() int64           { return d.grown }
func (d *desk) OnHeard(func())         {}
func (d *desk) Only(map[string]string) {}

func (d *desk) In(context.Context, string, func()) (client.Reader, error) { return inOrder{d}, nil }

type inOrder struct{ *desk }

func (r inOrder) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.Client.Get(ctx, key, o, opts...)
}

func (r inOrder) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Client.List(ctx, list, opts...)
	if claims, ok := list.(*corev1.PersistentVolumeClaimList); ok && r.backwards {
		slices.Reverse(claims.Items)
	}
	return err
}

func (d *desk) create(o client.Object) {
	d.t.Helper()
	if err := d.Create(d.t.Context(), o); err != nil {
		d.t.Fatal(err)
	}
}

func resources(cpu string) api.Resources {
	return api.Resources{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(cpu + "Gi")}
}

// pool makes a VirtualNodePool of namespace team.
func (d *desk) pool(name string) *api.VirtualNodePool {
	d.t.Helper()
	p := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"team"}, Max: resources("20")}}
	d.create(p)
	return p
}

// pods makes pods that are Unschedulable for a minute.
func (d *desk) pods(n int, cpu string) {
	d.t.Helper()
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("web-%d", i)},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: resources(cpu)},
				}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}
		d.create(p)
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(d.clock.Now().Add(-time.Minute)),
		}}}
		if err := d.Status().Update(d.t.Context(), p); err != nil {
			d.t.Fatal(err)
		}
	}
}

// bind puts pods on a node, all if none is named.
func (d *desk) bind(node string, names ...string) {
	d.t.Helper()
	var list corev1.PodList
	if err := d.List(d.t.Context(), &list); err != nil {
		d.t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		p.Spec.NodeName = node
		if err := d.Update(d.t.Context(), p); err != nil {
			d.t.Fatal(err)
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		if err := d.Status().Update(d.t.Context(), p); err != nil {
			d.t.Fatal(err)
		}
	}
}

// look reconciles a pool, and returns it afterwards; nil if it is gone.
func (d *desk) look(name string) *api.VirtualNodePool {
	d.t.Helper()
	if _, err := d.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
		d.t.Fatal(err)
	}
	var p api.VirtualNodePool
	if err := d.Get(d.t.Context(), client.ObjectKey{Name: name}, &p); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		d.t.Fatal(err)
	}
	return &p
}

// newEvents returns the Events since the last call.
func (d *desk) newEvents() (all []string) {
	for len(d.events.Events) > 0 {
		all = append(all, <-d.events.Events)
	}
	return all
}

func (d *desk) requests() []api.ResourceRequest {
	d.t.Helper()
	var list api.ResourceRequestList
	if err := d.List(d.t.Context(), &list, client.InNamespace("bourse")); err != nil {
		d.t.Fatal(err)
	}
	return list.Items
}

// bound makes the reservation of a request Active, and its virtual node Ready.
func (d *desk) bound(r *api.ResourceRequest, change func(*market.Reservation)) string {
	d.t.Helper()
	size, err := amounts.ParseRequest("", r.Spec.Resources)
	if err != nil {
		d.t.Fatal(err)
	}
	note := &market.Reservation{
		ID: "at-" + r.Spec.Target, State: api.Active, Consumer: "rome", Provider: r.Spec.Target,
		Pool: api.GeneralPool, Size: size, Assignment: "assignment",
		Created: d.began, Until: market.At(d.began.Go().Add(24 * time.Hour)),
		Object: &market.Object{Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)},
	}
	if change != nil {
		change(note)
	}
	if _, err := d.ledger.Do(d.t.Context(), market.Note{Reservation: note}); err != nil {
		d.t.Fatal(err)
	}
	node := offload.PoolNode(liqo.Installation{}, "burst", []string{"team"})
	node.Name = note.Slice()
	err = d.Create(d.t.Context(), node)
	if apierrors.IsAlreadyExists(err) {
		err = d.Get(d.t.Context(), client.ObjectKeyFromObject(node), node)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	node.Status = corev1.NodeStatus{Allocatable: r.Spec.Resources, Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(d.clock.Now()),
	}}}
	if err := d.Status().Update(d.t.Context(), node); err != nil {
		d.t.Fatal(err)
	}
	return node.Name
}

func condition(p *api.VirtualNodePool, kind string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func (d *desk) cordon(name string) {
	d.t.Helper()
	var node corev1.Node
	if err := d.Get(d.t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		d.t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := d.Update(d.t.Context(), &node); err != nil {
		d.t.Fatal(err)
	}
}
