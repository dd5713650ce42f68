package federation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// Work is a Deployment in a member with VirtualNodePools. Its pods run on the member's own nodes first.
type Work struct {
	Namespace string
	Requests  api.Resources
	// Replicas is how many pods there are.
	Replicas atomic.Int32
	made     atomic.Int32
}

// Made is how many pods were made so far.
func (w *Work) Made() int { return int(w.made.Load()) }

// NewWork returns the Deployment of a namespace.
func NewWork(namespace string, replicas int32, requests api.Resources) *Work {
	w := &Work{Namespace: namespace, Requests: requests}
	w.Replicas.Store(replicas)
	return w
}

// simulateEvery is how often virtual nodes and the pods of Work follow what was written.
const simulateEvery = 200 * time.Millisecond

// simulate does what Liqo, the scheduler and the controller of a Deployment would do, until ctx ends. A
// step that fails, as while the API is down, is done again with the next.
func (m *Member) simulate(ctx context.Context) {
	ticker := time.NewTicker(simulateEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if others, err := m.makeVirtualNodes(ctx); err == nil && m.Work != nil {
				_ = m.schedule(ctx, others)
			}
		case <-ctx.Done():
			return
		}
	}
}

// makeVirtualNodes gives each reservation of a VirtualNodePool its virtual node. It returns what other requests have of
// each.
func (m *Member) makeVirtualNodes(ctx context.Context) (others map[string]amounts.List, err error) {
	var requests api.ResourceRequestList
	var instructions api.ReservationInstructionList
	var nodes corev1.NodeList
	for _, list := range []kube.ObjectList{&requests, &instructions, &nodes} {
		if err := m.Objects.List(ctx, list); err != nil {
			return nil, err
		}
	}
	ofPools := map[*api.ReservationInstruction]*api.ResourceRequest{}
	others = map[string]amounts.List{}
	for i := range instructions.Items {
		instruction := &instructions.Items[i]
		r := slices.IndexFunc(requests.Items, func(r api.ResourceRequest) bool {
			return metav1.IsControlledBy(instruction, &r)
		})
		switch {
		case r < 0 || instruction.Status.State != api.Reserved:
		case requests.Items[r].Labels[api.VirtualNodePoolLabel] != "":
			ofPools[instruction] = &requests.Items[r]
		default:
			others[instruction.Spec.Slice] = others[instruction.Spec.Slice].Plus(amountsOf(instruction.Spec.Resources))
		}
	}
	stays := map[string]bool{}
	for instruction, request := range ofPools {
		stays[instruction.Spec.Slice] = true
		if err := m.makeVirtualNode(ctx, request, instruction, others[instruction.Spec.Slice], nodes.Items); err != nil {
			return nil, err
		}
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Labels[api.VirtualNodePoolLabel] != "" && !stays[n.Name] {
			if err := m.Objects.Delete(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	return others, nil
}

// makeVirtualNode makes one, and cordons and sizes it as the request says, with what other requests have of it.
func (m *Member) makeVirtualNode(ctx context.Context, request *api.ResourceRequest, of *api.ReservationInstruction,
	others amounts.List, nodes []corev1.Node) error {
	size, drains := of.Spec.Resources, request.Annotations[vnp.DrainAnnotation] != ""
	if wish := vnp.ReadWish(request); wish != nil {
		size = wish.Resources()
	}
	size = amountsOf(size).Plus(others).Resources()
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == of.Spec.Slice })
	if i < 0 {
		n := offload.PoolNode(liqo.Installation{}, request.Labels[api.VirtualNodePoolLabel], nil)
		n.Name, n.Labels["liqo.io/remote-cluster-id"] = of.Spec.Slice, of.Spec.Provider
		n.Status = corev1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}}
		return m.Objects.Create(ctx, n)
	}
	n := &nodes[i]
	if n.Spec.Unschedulable != drains {
		n.Spec.Unschedulable = drains
		if err := m.Objects.Update(ctx, n); err != nil {
			return err
		}
	}
	if has, err := amounts.ParseCapacity("", n.Status.Allocatable); err != nil || !has.Equal(amountsOf(size)) {
		n.Status.Capacity, n.Status.Allocatable = size, size
		return m.Objects.Status().Update(ctx, n)
	}
	return nil
}

func amountsOf(r api.Resources) amounts.List {
	out, _ := amounts.ParseCapacity("", r) // what is reserved was parsed before
	return out
}

// schedule makes the pods of the work, and binds each to a node that has room beside what others have.
func (m *Member) schedule(ctx context.Context, others map[string]amounts.List) error {
	var nodes corev1.NodeList
	var pods corev1.PodList
	for _, list := range []kube.ObjectList{&nodes, &pods} {
		if err := m.Objects.List(ctx, list); err != nil {
			return err
		}
	}
	slices.SortStableFunc(nodes.Items, func(a, b corev1.Node) int { // the cluster's own first
		return len(a.Labels[api.VirtualNodePoolLabel]) - len(b.Labels[api.VirtualNodePoolLabel])
	})
	free := map[string]amounts.List{}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !n.Spec.Unschedulable {
			free[n.Name] = amountsOf(n.Status.Allocatable).Minus(others[n.Name])
		}
	}
	var kept []*corev1.Pod
	for i := range pods.Items {
		p := &pods.Items[i]
		_, stands := free[p.Spec.NodeName]
		if p.Namespace != m.Work.Namespace || stands {
			free[p.Spec.NodeName] = free[p.Spec.NodeName].Minus(amountsOf(p.Spec.Containers[0].Resources.Requests))
		}
		if p.Namespace != m.Work.Namespace {
			continue
		}
		if p.Spec.NodeName != "" && !stands { // it is evicted, and another one is made
			if err := m.Objects.Delete(ctx, p); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, p)
	}
	rank := func(p *corev1.Pod) int { // what runs here stays longest, what waits goes first
		i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
		if i < 0 {
			return len(nodes.Items)
		}
		return i
	}
	slices.SortStableFunc(kept, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	want := int(m.Work.Replicas.Load())
	for len(kept) < want {
		p, err := m.makePod(ctx)
		if err != nil {
			return err
		}
		kept = append(kept, p)
	}
	for _, p := range kept[want:] {
		if err := m.Objects.Delete(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range kept[:want] {
		if p.Spec.NodeName == "" {
			if err := m.bind(ctx, p, nodes.Items, free); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Member) makePod(ctx context.Context) (*corev1.Pod, error) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Work.Namespace, Name: fmt.Sprintf("work-%d", m.Work.made.Add(1))},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "work", Image: "sim",
				Resources: corev1.ResourceRequirements{Requests: m.Work.Requests}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // as Liqo's webhook makes them
		},
	}
	return p, m.Objects.Create(ctx, p)
}

// bind binds a pod to the first node that has room, or says that there is none.
func (m *Member) bind(ctx context.Context, p *corev1.Pod, nodes []corev1.Node, free map[string]amounts.List) error {
	requests := amountsOf(p.Spec.Containers[0].Resources.Requests)
	for i := range nodes {
		name := nodes[i].Name
		if _, ok := free[name]; !ok || !free[name].Fits(requests) {
			continue
		}
		p.Spec.NodeName = name
		if err := m.Objects.Update(ctx, p); err != nil {
			return err
		}
		free[name] = free[name].Minus(requests)
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		return m.Objects.Status().Update(ctx, p)
	}
	if len(p.Status.Conditions) > 0 {
		return nil
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.Now(),
	}}}
	return m.Objects.Status().Update(ctx, p)
}
