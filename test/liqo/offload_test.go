package liqo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Pods that were made before any provider run on the first one, and those that have no room there
// on the second one: the same pods, because the selector that Liqo copied into them never changes.
func TestPodsThatWereMadeBeforeTheirProvider(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "early", amounts("2", "2Gi"), func(r *api.ResourceRequest) { r.Spec.Confirm = true })
	a.isOffloaded()
	work := a.run(8, "500m", "64Mi")
	var early map[types.UID]string
	eventually(t, "8 pods wait", func(ctx context.Context) (err error) {
		early, err = a.pods(ctx, func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodPending &&
				p.Spec.NodeName == ""
		})
		if err == nil && len(early) != 8 {
			err = fmt.Errorf("%d wait", len(early))
		}
		return err
	})
	before := a.request.DeepCopy()
	a.request.Annotations = map[string]string{"bourse.dev/confirm": "true"}
	if err := w.rome.Objects.Patch(t.Context(), a.request, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Active)
	a.runs(4)
	second := w.askIn(t, "early", "later", "paris", amounts("2", "2Gi"))
	second.becomes(api.Active)
	a.runs(8)
	now, err := a.pods(t.Context(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(early))) {
		t.Errorf("the pods %v run, want %v; %v", now, early, err)
	}
	var offloading offv1beta1.NamespaceOffloading
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "early", Name: "offloading"},
		&offloading); err != nil || offloading.Generation != 1 {
		t.Errorf("the offloading is %+v, %v", offloading, err)
	}
	// The second provider leaves: what runs at the first one stays.
	stay, err := a.pods(t.Context(),
		func(p *corev1.Pod) bool { return p.Spec.NodeName == market.SliceName("rome", "milan", api.GeneralPool) })
	if err != nil {
		t.Fatal(err)
	}
	second.release()
	a.runs(4)
	now, err = a.pods(t.Context(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if err != nil || !maps.Equal(now, stay) {
		t.Errorf("the pods %v run, want %v; %v", now, stay, err)
	}
	w.nothingLeft(t, w.rome, w.paris)
	if err := w.rome.Objects.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	a.isNotOffloaded()
}

// A request that is deleted before it had a provider leaves no offloading behind.
func TestARequestThatNeverHadAProvider(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "never", amounts("1", "1Gi"), func(r *api.ResourceRequest) { r.Spec.Confirm = true })
	a.isOffloaded()
	if err := w.rome.Objects.Delete(t.Context(), a.request.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	a.isNotOffloaded()
}

// A provider leaves in order: its virtual node is cordoned, pods are evicted, and only when none is
// left does the label go, and then the slice. What cannot be evicted is deleted when the graces are
// over: the end of a reservation does not wait for a budget nor for a claim.
func TestAProviderLeavesInOrder(t *testing.T) {
	w := start(t)
	w.lendsDisks(t, w.milan, w.rome)
	a := w.ask(t, w.rome, w.milan, "leaving", amounts("2", "2Gi"))
	a.becomes(api.Active)
	node := market.SliceName("rome", "milan", api.GeneralPool)
	claim := a.claim("data")
	a.run(2, "100m", "64Mi", mounts("data"))
	a.running(w.milan, 2)
	a.isBound(claim, w.milan)
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: "bare"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"liqo.io/type": "virtual-node"},
		Containers: []corev1.Container{{Name: "c", Image: "localhost/c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("100m", "64Mi"))}}},
	}}
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: "one"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leaving"}},
		}}
	for _, o := range []kube.Object{bare, budget} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	a.running(w.milan, 3)
	id := a.request.Status.Reservation
	err := w.rome.People(0).ReleaseLocally(t.Context(), id, api.Release{})
	refusal, _ := errors.AsType[*api.Error](err)
	if refusal == nil || refusal.Volumes == nil {
		t.Fatalf("release: %v", err)
	}
	var slice authv1beta1.ResourceSlice
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: node},
		&slice); err != nil || slice.Annotations["liqo.io/create-virtual-node"] != "" {
		t.Errorf("Liqo's creator copies what the provider sends: %v, %v", slice.Annotations, err)
	}
	if err := w.rome.People(0).ReleaseLocally(t.Context(), id,
		api.Release{VolumesDie: refusal.Volumes.Digest}); err != nil {
		t.Fatal(err)
	}
	var steps []string
	step := func(name string) {
		if !slices.Contains(steps, name) {
			steps = append(steps, name)
		}
	}
	at(t, "the slice is gone", func(ctx context.Context) error {
		slice := authv1beta1.ResourceSlice{}
		gone := apierrors.IsNotFound(w.rome.Objects.Get(ctx,
			kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: node}, &slice))
		virtual := offv1beta1.VirtualNode{}
		labelled := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: node}, &virtual) == nil &&
			virtual.Spec.Labels["offload.bourse.dev/leaving"] != ""
		pods, err := a.pods(ctx, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
		if err != nil {
			return err
		}
		var n corev1.Node
		if w.rome.Objects.Get(ctx, kube.ObjectKey{Name: node}, &n) == nil && n.Spec.Unschedulable {
			step("cordoned")
		}
		if len(pods) < 3 {
			step("evicted")
		}
		if len(pods) == 0 {
			step("no pod")
		}
		if !labelled {
			step("label off")
		}
		if gone || slice.DeletionTimestamp != nil {
			step("slice gone")
			return nil
		}
		return errors.New("it is there")
	})
	if want := []string{"cordoned", "evicted", "no pod", "label off", "slice gone"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	failed, err := a.pods(t.Context(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if err != nil || len(failed) > 0 {
		t.Errorf("the pods %v failed, %v", failed, err)
	}
	a.released()
	w.nothingLeft(t, w.rome, w.milan)
}

// An offloading of an older version, whose selector names providers, gets the selector that never
// changes. Nothing at the provider ends by that, also when the agent is killed on the way.
func TestAnOldOffloadingIsMigrated(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "old", amounts("2", "2Gi"))
	a.becomes(api.Active)
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)
	node := market.SliceName("rome", "milan", api.GeneralPool)
	was := podsIn(t, w.milan, "old-rome")
	agent := w.agentOf(t, w.rome)

	agent.kill()
	var offloading offv1beta1.NamespaceOffloading
	var virtual offv1beta1.VirtualNode
	change := func(o kube.Object, namespace, name string, change func()) {
		t.Helper()
		if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			t.Fatal(err)
		}
		before := o.DeepCopyObject().(kube.Object)
		change()
		if err := w.rome.Objects.Patch(t.Context(), o, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	change(&offloading, "old", "offloading", func() {
		offloading.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "liqo.io/remote-cluster-id", Operator: corev1.NodeSelectorOpIn, Values: []string{"milan"}},
		}}}
	})
	eventually(t, "Liqo has seen the old selector", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(&offloading), &offloading)
		if err == nil && offloading.Status.ObservedGeneration != offloading.Generation {
			err = fmt.Errorf("it has seen %d of %d", offloading.Status.ObservedGeneration, offloading.Generation)
		}
		return err
	})
	change(&virtual, "liqo-tenant-milan", node, func() { delete(virtual.Spec.Labels, "offload.bourse.dev/old") })
	labelled := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			var n corev1.Node
			err := w.rome.Objects.Get(ctx, kube.ObjectKey{Name: node}, &n)
			if _, is := n.Labels["offload.bourse.dev/old"]; err == nil && is != want {
				err = fmt.Errorf("its labels are %v", n.Labels)
			}
			return err
		}
	}
	eventually(t, "the Node has no label", labelled(false))
	agent.start()
	at(t, "the Node has the label", labelled(true))
	agent.kill()
	agent.start()
	eventually(t, "the selector is the new one", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(&offloading), &offloading)
		if key := offloading.Spec.ClusterSelector.NodeSelectorTerms[0].MatchExpressions[0].Key; err == nil &&
			key != "offload.bourse.dev/old" {
			err = fmt.Errorf("it is %s", key)
		}
		if err == nil && offloading.Status.ObservedGeneration != offloading.Generation {
			err = errors.New("Liqo has not seen it")
		}
		return err
	})
	a.running(w.milan, 2)
	if is := podsIn(t, w.milan, "old-rome"); !slices.Equal(is, was) {
		t.Errorf("the pods at the provider were %v, are %v", was, is)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// A virtual node that somebody makes by hand, with a provider that has one of ours, ends no
// namespace there, although it does not have its label; it gets the label.
func TestAVirtualNodeMadeByHand(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "beside-ours", amounts("2", "2Gi"))
	a.becomes(api.Active)
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)
	was := podsIn(t, w.milan, "beside-ours-rome")
	var ours offv1beta1.VirtualNode
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-milan",
		Name: market.SliceName("rome", "milan", api.GeneralPool)}, &ours); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stays mapped", func(ctx context.Context) error {
		var m offv1beta1.NamespaceMap
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: ours.Namespace, Name: "milan"}, &m)
		if kept := m.Annotations["bourse.dev/keep-namespaces"]; err == nil && kept != "beside-ours" {
			err = fmt.Errorf("kept are %q", kept)
		}
		return err
	})
	no := false
	second := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: "made-by-hand",
			Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: ours.Spec.ClusterID, KubeconfigSecretRef: ours.Spec.KubeconfigSecretRef, VkOptionsTemplateRef: ours.Spec.VkOptionsTemplateRef,
			CreateNode: &no, ResourceQuota: ours.Spec.ResourceQuota,
		},
	}
	if err := w.rome.Objects.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has the label", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(second), second)
		if err == nil && second.Spec.Labels["offload.bourse.dev/beside-ours"] == "" {
			err = fmt.Errorf("its labels are %v", second.Spec.Labels)
		}
		return err
	})
	if err := w.rome.Objects.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(second), second)
		if err == nil {
			return errors.New("it is there")
		}
		return kube.IgnoreNotFound(err)
	})
	a.running(w.milan, 2)
	if is := podsIn(t, w.milan, "beside-ours-rome"); !slices.Equal(is, was) {
		t.Errorf("the pods at the provider were %v, are %v", was, is)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// askIn asks for one more reservation, in the namespace of another.
func (w *world) askIn(t *testing.T, namespace, name, target string, amounts api.Resources) *asked {
	t.Helper()
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: api.ResourceRequestSpec{
			Request: api.Request{Resources: amounts, Target: target}, Offload: &api.Offload{Namespaces: []string{namespace}},
		}}
	if err := w.rome.Objects.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.rome.Objects.Delete(context.Background(), r) })
	return &asked{w, t, w.rome, r}
}

// isOffloaded waits until pods of the request's namespace that are made from now on can run on virtual nodes.
func (a *asked) isOffloaded() {
	a.t.Helper()
	eventually(a.t, a.request.Namespace+" is offloaded", func(ctx context.Context) error {
		var ns corev1.Namespace
		err := a.from.Objects.Get(ctx, kube.ObjectKey{Name: a.request.Namespace}, &ns)
		if err == nil && ns.Labels["liqo.io/scheduling-enabled"] != "true" {
			err = fmt.Errorf("its labels are %v", ns.Labels)
		}
		return err
	})
}

func (a *asked) isNotOffloaded() {
	a.t.Helper()
	eventually(a.t, a.request.Namespace+" is not offloaded", func(ctx context.Context) error {
		var o offv1beta1.NamespaceOffloading
		err := a.from.Objects.Get(ctx, kube.ObjectKey{Namespace: a.request.Namespace, Name: "offloading"}, &o)
		if err == nil {
			return fmt.Errorf("it is: %+v", o.Status)
		}
		return kube.IgnoreNotFound(err)
	})
}

// pods returns the pods of the request's namespace for which is returns true: their names by UID.
func (a *asked) pods(ctx context.Context, is func(*corev1.Pod) bool) (map[types.UID]string, error) {
	var list corev1.PodList
	err := a.from.Objects.List(ctx, &list, kube.InNamespace(a.request.Namespace))
	out := map[types.UID]string{}
	for _, p := range list.Items {
		if is(&p) {
			out[p.UID] = p.Name
		}
	}
	return out, err
}
