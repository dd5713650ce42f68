package policies

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// With all roles of config the agent may read, evict and delete pods, and do nothing else to them.
// It deletes those of consumers in namespaces that it guards and those that run on virtual nodes,
// and no others: not the provider's own, nor what the provider runs in a consumer's namespace.
func TestPodsThatTheAgentDeletes(t *testing.T) {
	w := start(t)
	agent := w.asAgent(t)
	want := []string{"pods delete", "pods list", "pods watch", "pods/eviction create"}
	w.eventually(t, "the agent has its rights to pods", func() error {
		may := slices.DeleteFunc(slices.Sorted(maps.Keys(w.rights(t, agent, mapped))),
			func(r string) bool { return !strings.HasPrefix(r, "pods") })
		if !slices.Equal(may, want) {
			return fmt.Errorf("it may %q, want %q", may, want)
		}
		return nil
	})

	const young = "unguarded-rome"
	if err := w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: young,
		Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}}}); err != nil {
		t.Fatal(err)
	}
	consumers := map[string]string{"liqo.io/managed-by": "shadowpod", "liqo.io/creator-user": user}
	for _, p := range []struct {
		what, namespace string
		labels          map[string]string
		let             bool
	}{
		{"a consumer's, in a namespace that is guarded", mapped, consumers, true},
		{"one that runs on a virtual node", own, map[string]string{"liqo.io/shadowPod": "true"}, true},
		{"the provider's own", own, nil, false},
		{"the provider's own, labelled as a consumer's", own, consumers, false},
		{"the provider's, in a consumer's namespace", mapped, map[string]string{"app": "collector"}, false},
		{"one that says half of it", mapped, map[string]string{"liqo.io/managed-by": "shadowpod"}, false},
		{"a consumer's, in a namespace that is not guarded", young, consumers, false},
	} {
		t.Run(p.what, func(t *testing.T) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "default"}}
			if err := w.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deleted", Labels: p.labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/c"}}}}
			if err := w.admin.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			defer w.remove(t, pod)
			err := w.mustAs(t, agent).Delete(t.Context(), pod, kube.DryRunAll)
			if p.let && err != nil || !p.let && !isRefusal(err, "the agent deletes only pods") {
				t.Errorf("it is deleted: %v, want %t", err, p.let)
			}
		})
	}
}

// agentRoles applies the roles of config once.
var agentRoles sync.Once

// asAgent returns the agent, with all roles of config.
func (w *world) asAgent(t *testing.T) account {
	t.Helper()
	agentRoles.Do(func() {
		if err := w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"rbac/agent.yaml", "liqo/peerings.yaml", "liqo/provider.yaml", "liqo/consumer.yaml"} {
			text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.cluster.Apply(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	})
	return account{"agent", rest.ImpersonationConfig{UserName: "system:serviceaccount:bourse:bourse-agent",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}}
}

// The agent patches nodes and virtual nodes, and does nothing else to them. Of virtual nodes it
// writes its own labels and whether they are cordoned; of others nothing.
func TestNodesThatTheAgentChanges(t *testing.T) {
	w := start(t)
	agent := w.asAgent(t)
	want := []string{
		"nodes list", "nodes patch", "nodes watch", "offloading.liqo.io/virtualnodes create", "offloading.liqo.io/virtualnodes list",
		"offloading.liqo.io/virtualnodes patch", "offloading.liqo.io/virtualnodes watch",
	}
	w.eventually(t, "the agent has its rights to nodes", func() error {
		may := slices.DeleteFunc(slices.Sorted(maps.Keys(w.rights(t, agent, tenant))), func(r string) bool {
			return !strings.HasPrefix(r, "nodes") && !strings.HasPrefix(r, "offloading.liqo.io/virtualnodes")
		})
		if !slices.Equal(may, want) {
			return fmt.Errorf("it may %q, want %q", may, want)
		}
		return nil
	})
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual",
		Labels: map[string]string{"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}}}
	real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	v := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant,
		Name: "virtual", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}, Spec: offv1beta1.VirtualNodeSpec{
		ClusterID: "milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "k"},
	}}
	own := v.DeepCopy()
	own.Name, own.Labels["app.kubernetes.io/managed-by"] = "own", "bourse"
	for _, o := range []kube.Object{virtual, real, v, own} {
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		defer w.remove(t, o)
	}
	node := func(o *corev1.Node, change func(*corev1.Node)) kube.Object {
		o = o.DeepCopy()
		change(o)
		return o
	}
	made := func(change func(*offv1beta1.VirtualNode)) kube.Object {
		o := v.DeepCopy()
		change(o)
		return o
	}
	kept := func(change func(*offv1beta1.VirtualNode)) kube.Object {
		o := own.DeepCopy()
		change(o)
		return o
	}
	const mine, cordons, labels = "its own labels only", "cordons virtual ones only", "changes the labels only"
	for _, c := range []struct {
		what, says string
		from, to   kube.Object
	}{
		{"cordons a virtual node", "", virtual,
			node(virtual, func(n *corev1.Node) { n.Spec.Unschedulable, n.Labels["bourse.dev/leaving"] = true, "1" })},
		{"cordons another node", cordons, real, node(real, func(n *corev1.Node) { n.Spec.Unschedulable = true })},
		{"taints a virtual node", cordons, virtual,
			node(virtual, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoExecute"}} })},
		{"labels a virtual node", mine, virtual, node(virtual, func(n *corev1.Node) { n.Labels["zone"] = "x" })},
		{"moves a virtual node to another cluster", mine, virtual,
			node(virtual, func(n *corev1.Node) { n.Labels["liqo.io/remote-cluster-id"] = "oslo" })},
		{"takes a label off", mine, virtual,
			node(virtual, func(n *corev1.Node) { delete(n.Labels, "liqo.io/remote-cluster-id") })},
		{"annotates a virtual node", mine, virtual,
			node(virtual, func(n *corev1.Node) { n.Annotations = map[string]string{"x": "y"} })},
		{"offloads a namespace", "", v,
			made(func(n *offv1beta1.VirtualNode) { n.Spec.Labels["offload.bourse.dev/"+strings.Repeat("n", 63)] = "true" })},
		{"labels its Node otherwise", mine, v, made(func(n *offv1beta1.VirtualNode) { n.Spec.Labels["zone"] = "x" })},
		{"labels the VirtualNode", labels, v, made(func(n *offv1beta1.VirtualNode) { n.Labels["zone"] = "x" })},
		{"has it use other credentials", labels, v,
			made(func(n *offv1beta1.VirtualNode) { n.Spec.KubeconfigSecretRef.Name = "other" })},
		{"makes it larger", labels, v, made(func(n *offv1beta1.VirtualNode) {
			n.Spec.ResourceQuota.Hard = corev1.ResourceList{"cpu": resource.MustParse("1")}
		})},
		{"taints its Node", labels, v,
			made(func(n *offv1beta1.VirtualNode) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoExecute"}} })},
		{"keeps one that it made", "", own, kept(func(n *offv1beta1.VirtualNode) {
			n.Spec.Labels["topology.kubernetes.io/region"] = "eu"
			n.Spec.ResourceQuota.Hard = corev1.ResourceList{"cpu": resource.MustParse("1")}
			n.Spec.StorageClasses = []liqov1beta1.StorageType{{StorageClassName: "fast"}}
		})},
		{"moves one that it made to another cluster", mine, own,
			kept(func(n *offv1beta1.VirtualNode) { n.Spec.Labels["liqo.io/remote-cluster-id"] = "oslo" })},
		{"makes one its own", labels, v,
			made(func(n *offv1beta1.VirtualNode) { n.Labels["app.kubernetes.io/managed-by"] = "bourse" })},
	} {
		err := w.mustAs(t, agent).Patch(t.Context(), c.to, kube.MergeFrom(c.from), kube.DryRunAll)
		if c.says == "" && err != nil || c.says != "" && !isRefusal(err, c.says) {
			t.Errorf("the agent %s: %v, want %q", c.what, err, c.says)
		}
	}
	// Liqo itself, which copies labels that the provider chooses, offloads no namespace, and ends no cordon.
	for _, key := range []string{"offload.bourse.dev/payroll", "bourse.dev/leaving", "bourse.dev/virtual-node-pool"} {
		stolen := made(func(n *offv1beta1.VirtualNode) { n.Spec.Labels[key] = "true" })
		if err := w.admin.Patch(t.Context(), stolen, kube.MergeFrom(v),
			kube.DryRunAll); !isRefusal(err, "only the agent offloads namespaces") {
			t.Errorf("another writes %s: %v", key, err)
		}
	}
}

// A namespace stays in the map of a provider while the agent says so, also after somebody removes it. No other stays.
func TestNamespacesThatStayMapped(t *testing.T) {
	w := start(t)
	m := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant,
		Name: "kept", Annotations: map[string]string{"bourse.dev/keep-namespaces": "a,b,never-mapped"}},
		Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"a": "a-rome", "b": "b-rome", "c": "c-rome"}}}
	if err := w.admin.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	defer w.remove(t, m)
	for name, kept := range map[string]bool{"a": true, "b": true, "c": false} {
		to := m.DeepCopy()
		delete(to.Spec.DesiredMapping, name)
		err := w.admin.Patch(t.Context(), to, kube.MergeFrom(m), kube.DryRunAll)
		if kept && !isRefusal(err, "keep-namespaces") || !kept && err != nil {
			t.Errorf("%s is taken out: %v", name, err)
		}
	}
	none := m.DeepCopy()
	none.Spec.DesiredMapping = nil
	if err := w.admin.Patch(t.Context(), none, kube.MergeFrom(m), kube.DryRunAll); !isRefusal(err, "keep-namespaces") {
		t.Errorf("all are taken out: %v", err)
	}
}
