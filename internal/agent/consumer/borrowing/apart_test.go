package borrowing

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// pot is a cluster in which noisy and quiet reserved a CPU each at milan. It plays the scheduler and the virtual
// kubelet.
type pot struct {
	*tenants
	node    string
	pods    []*corev1.Pod // on the virtual node
	evicted []string
	deleted []string // at once
	budget  bool     // a PodDisruptionBudget allows no eviction
}

func newPot(t *testing.T) *pot {
	return newPotOf(t, func(w *tenants) { w.borrows("noisy", &api.Offload{}) })
}

// newPotOf is newPot with what reserves for noisy.
func newPotOf(t *testing.T, noisy func(*tenants)) *pot {
	p := &pot{tenants: newTenants(t)}
	p.evictor.Reader, p.evictor.Client = p, p
	p.create(&offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan",
		Labels: map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/replication": "true"}}})
	noisy(p.tenants)
	p.borrows("quiet", &api.Offload{})
	p.serve()
	nodes, names, err := p.namespaces.Nodes(t.Context(), "milan")
	if err != nil || len(nodes) != 1 || !slices.Equal(names, []string{"noisy", "quiet"}) {
		t.Fatalf("offloaded to %v are %v, %v", nodes, names, err)
	}
	p.node = nodes[0]
	p.kubelet()
	return p
}

// List implements [client.Reader] for the pods.
func (p *pot) List(ctx context.Context, list client.ObjectList, how ...client.ListOption) error {
	if pods, ok := list.(*corev1.PodList); ok {
		for _, pod := range p.pods {
			pods.Items = append(pods.Items, *pod)
		}
		return nil
	}
	return p.Client.List(ctx, list, how...)
}

// SubResource implements [client.Client] for evictions.
func (p *pot) SubResource(string) client.SubResourceClient { return eviction{pot: p} }

type eviction struct {
	client.SubResourceClient
	pot *pot
}

func (e eviction) Create(_ context.Context, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
	if e.pot.budget {
		return apierrors.NewTooManyRequests("it would violate the pod's disruption budget", 0)
	}
	e.pot.evicted = append(e.pot.evicted, o.GetNamespace()+"/"+o.GetName())
	e.pot.ends(o.GetName())
	return nil
}

// Delete implements [client.Client] for pods that are deleted at once.
func (p *pot) Delete(ctx context.Context, o client.Object, how ...client.DeleteOption) error {
	if _, ok := o.(*corev1.Pod); !ok {
		return p.Client.Delete(ctx, o, how...)
	}
	p.deleted = append(p.deleted, o.GetNamespace()+"/"+o.GetName())
	p.ends(o.GetName())
	return nil
}

// place places pods of half a CPU.
func (p *pot) place(namespace string, names ...string) {
	for _, name := range names {
		p.pods = append(p.pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				CreationTimestamp: metav1.NewTime(time.Unix(int64(len(p.pods)), 0))},
			Spec: corev1.PodSpec{NodeName: p.node, Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(transporttest.CPU("500m"))}}}},
		})
	}
	p.sum()
}

// ends ends a pod.
func (p *pot) ends(name string) {
	p.pods = slices.DeleteFunc(p.pods, func(pod *corev1.Pod) bool { return pod.Name == name })
	p.sum()
}

func (p *pot) sum() {
	clear(p.used)
	for _, pod := range p.pods {
		sum := p.used[pod.Namespace]["cpu"]
		sum.Add(pod.Spec.Containers[0].Resources.Requests["cpu"])
		p.used[pod.Namespace] = api.Resources{"cpu": sum}
	}
}

// kubelet gives the Node the labels of its VirtualNode.
func (p *pot) kubelet() {
	p.Helper()
	var v offv1beta1.VirtualNode
	p.get("liqo-tenant-milan", p.node, &v)
	var node corev1.Node
	p.get("", p.node, &node)
	node.Labels = v.Spec.Labels
	if err := p.Update(p.Context(), &node); err != nil {
		p.Fatal(err)
	}
}

// look serves milan once, and demands the namespaces whose pods may be placed on the node.
func (p *pot) look(want ...string) {
	p.Helper()
	if _, err := p.Serve(p.Context(), "milan"); err != nil {
		p.Fatal(err)
	}
	var v offv1beta1.VirtualNode
	p.get("liqo-tenant-milan", p.node, &v)
	var got []string
	for _, namespace := range []string{"noisy", "quiet"} {
		if v.Spec.Labels[offload.Label(namespace)] != "" {
			got = append(got, namespace)
		}
	}
	if !slices.Equal(got, want) {
		p.Errorf("the node is open to %v, want %v", got, want)
	}
	if names := p.offloaded(); !slices.Equal(names, []string{"noisy", "quiet"}) {
		p.Errorf("offloaded are %v: a namespace whose node is closed stays mapped", names)
	}
}

// A namespace that uses more than its own requests reserve loses its youngest pods, and gets no more, until some end.
// Others keep theirs.
func TestANamespaceUsesWhatItReserved(t *testing.T) {
	p := newPot(t)
	p.place("noisy", "n1", "n2", "n3", "n4")
	p.place("quiet", "q1")
	p.look("quiet")
	if len(p.evicted) > 0 {
		t.Errorf("evicted are %v, before the scheduler knows that the node is closed", p.evicted)
	}
	p.shows("noisy", api.ConditionPodsComply, metav1.ConditionFalse, "ReservationUsedUp", "noisy uses all", "at milan")
	p.kubelet()
	p.look("quiet")
	if want := []string{"noisy/n4", "noisy/n3"}; !slices.Equal(p.evicted, want) {
		t.Errorf("evicted are %v, want %v", p.evicted, want)
	}
	p.look("quiet") // now it fits
	p.look("quiet")
	p.shows("quiet", api.ConditionPodsComply, metav1.ConditionTrue, "PodsComply")
	p.ends("n2")
	p.look("noisy", "quiet")
	p.shows("noisy", api.ConditionPodsComply, metav1.ConditionTrue, "PodsComply")
}

// A namespace whose pods are too large for what it has left tries again after pauses that grow.
func TestAClosedNodeOpensAfterAPause(t *testing.T) {
	p := newPot(t)
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		p.place("noisy", "n1", "n2", "n3")
		p.look("quiet")
		p.kubelet()
		p.look("quiet") // n3 is evicted
		p.look("quiet")
		p.clock.SetTime(p.clock.Now().Add(pause - time.Second))
		p.look("quiet")
		p.clock.SetTime(p.clock.Now().Add(time.Second))
		p.look("noisy", "quiet")
		p.kubelet()
		p.pods = nil
	}
	p.sum()
	p.clock.SetTime(p.clock.Now().Add(5 * time.Minute))
	p.look("noisy", "quiet")
	if s := p.state("milan"); len(closedBy(s.apart)) > 0 {
		t.Errorf("closed are %v", closedBy(s.apart))
	}
}

// The namespaces of a VirtualNodePool and those of requests are kept apart on the virtual node that they share. It is the
// pool's while the pool has something of it.
func TestAPoolAndARequestShareANode(t *testing.T) {
	p := newPotOf(t, func(w *tenants) { w.burstsFrom("noisy") })
	var v offv1beta1.VirtualNode
	p.get("liqo-tenant-milan", p.node, &v)
	if size := v.Spec.ResourceQuota.Hard["cpu"]; size.Value() != 2 || v.Spec.Labels[api.VirtualNodePoolLabel] != "burst" {
		t.Errorf("the virtual node is %+v", v.Spec)
	}
	p.place("noisy", "n1", "n2", "n3", "n4")
	p.place("quiet", "q1")
	p.look("quiet")
	p.kubelet()
	p.look("quiet")
	if want := []string{"noisy/n4", "noisy/n3"}; !slices.Equal(p.evicted, want) {
		t.Errorf("evicted are %v, want %v", p.evicted, want)
	}
	p.look("quiet")
	p.ends("n2")
	p.place("quiet", "q2", "q3")
	p.look("noisy") // the request's pods take nothing of the pool's
}

func TestAnAdminLetsNamespacesShare(t *testing.T) {
	p := newPot(t)
	p.create(&api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "milan"},
		Spec: api.PeerSpec{ShareReservations: true}})
	p.place("noisy", "n1", "n2", "n3", "n4")
	p.look("noisy", "quiet")
}

// Without the admission policies, Liqo would delete the namespace at the provider: nothing is closed, and it is said.
func TestNothingIsClosedWithoutPolicies(t *testing.T) {
	p := newPot(t)
	p.guard = errors.New("policy bourse-namespacemap is missing")
	p.place("noisy", "n1", "n2", "n3")
	p.look("noisy", "quiet")
	p.look("noisy", "quiet")
	if len(p.evicted) > 0 {
		t.Errorf("evicted are %v, and would come again", p.evicted)
	}
	p.shows("noisy", api.ConditionPodsComply, metav1.ConditionFalse, "ReservationUsedUp", "bourse-namespacemap")
}
