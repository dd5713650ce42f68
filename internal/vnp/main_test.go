package vnp

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

var (
	noon   = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	labels = map[string]string{"type": "virtual-node", "kubernetes.io/os": "linux"}
	taint  = corev1.Taint{Key: "not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}
)

func resources(cpu, memory int64) api.Resources {
	return api.Resources{
		"cpu":    *resource.NewQuantity(cpu, resource.DecimalSI),
		"memory": *resource.NewQuantity(memory<<30, resource.BinarySI),
	}
}

func amountsOf(cpu, memory int64) amounts.List {
	a, err := amounts.ParseCapacity("", resources(cpu, memory))
	if err != nil {
		panic(err)
	}
	return a
}

func spec(cpu int64) *api.VirtualNodePoolSpec {
	return &api.VirtualNodePoolSpec{Namespaces: []string{"team"}, Max: resources(cpu, 4*cpu)}
}

func planner(t rapid.TB, s *api.VirtualNodePoolSpec) *Planner {
	t.Helper()
	p, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pending returns a pod that is Unschedulable for a minute at noon.
func pending(name string, cpu int64, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: resources(cpu, cpu)}}},
			Tolerations: []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute)),
		}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// on puts a pod on a node.
func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = node, corev1.PodStatus{Phase: corev1.PodRunning}
	}
}

func several(n int, cpu int64, change ...func(*corev1.Pod)) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, pending(fmt.Sprintf("p-%02d-%d", i, cpu), cpu, change...))
	}
	return pods
}

func ready(name string, cpu int64) Provider {
	return Provider{Name: name, Node: "node-" + name, State: Ready, Since: noon.Add(-time.Hour),
		Reserved: amountsOf(cpu, cpu), Created: noon.Add(-time.Hour), Until: noon.Add(23 * time.Hour), Labels: labels}
}

func seen(pods []*corev1.Pod, providers ...Provider) Observation {
	return Observation{Now: noon, Pods: pods, Providers: providers, Reached: true,
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}}
}

// fit is a cluster that could serve so many CPUs, in nodes of so many.
func fit(name string, cpu, each int64, shapes ...int64) api.Fit {
	f := api.Fit{Cluster: name, Resources: resources(cpu, cpu)}
	for _, s := range shapes {
		f.Pods = append(f.Pods, min(cpu/each*(each/s), cpu/s))
	}
	return f
}

// answers returns a broker that answers the same each time.
func answers(fits ...api.Fit) func(Ask) Answer {
	return func(Ask) Answer { return Answer{Fits: &api.Fits{Clusters: fits}} }
}

// steps writes a plan's steps as text: "Create milan 4".
func steps(p *Plan) (out []string) {
	for _, s := range p.Steps {
		text := string(s.Verb) + " " + s.Provider
		if s.Size != nil {
			text += fmt.Sprintf(" %g", float64(s.Size.Of("cpu"))/1000)
		}
		out = append(out, text)
	}
	return out
}
