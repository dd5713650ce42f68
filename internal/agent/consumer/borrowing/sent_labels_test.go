package borrowing

import (
	"maps"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// hostile are labels that a provider must not choose: they end an admin's cordon, keep the agent from draining the
// node, put it into a pool or a hub's selection, and draw pods.
var hostile = map[string]string{
	"bourse.dev/leaving": "1", "bourse.dev/virtual-node-pool": "upstream", "bourse.dev/provider": "oslo",
	"offload.bourse.dev/payroll": "true", "liqo.io/type": "none", "x.liqo.io/y": "z", "type": "none", "lent": "hub",
	"node-role.kubernetes.io/control-plane": "", "kubernetes.io/hostname": "db-1", "autoscaling.k8s.io/x": "y",
}

// sliceOf returns the slice and the VirtualNode of milan's general pool.
func (w *tenants) sliceOf() (slice authv1beta1.ResourceSlice, node offv1beta1.VirtualNode) {
	w.Helper()
	name := market.SliceName("rome", "milan", api.GeneralPool)
	w.get("liqo-tenant-milan", name, &slice)
	w.get("liqo-tenant-milan", name, &node)
	return slice, node
}

// A virtual node keeps its own labels and follows the reservations. Labels and amounts that its
// provider sends do not change that.
// A condition names the labels, and an admin's cordon stays.
func TestLabelsThatAProviderSends(t *testing.T) {
	w := newTenants(t)
	w.grants = func(status *authv1beta1.ResourceSliceStatus) {
		status.NodeLabels = maps.Clone(hostile)
		status.NodeLabels[corev1.LabelTopologyRegion], status.NodeLabels[corev1.LabelArchStable] = "eu", "arm64"
	}
	w.borrows("a", &api.Offload{})
	w.serve()
	want := map[string]string{"liqo.io/remote-cluster-id": "milan", "bourse.dev/provider": "milan",
		"bourse.dev/pool": "general", "offload.bourse.dev/a": "true",
		corev1.LabelTopologyRegion: "eu", corev1.LabelArchStable: "arm64"}
	slice, node := w.sliceOf()
	if !maps.Equal(node.Spec.Labels, want) {
		t.Errorf("the labels are %v, want %v", node.Spec.Labels, want)
	}
	w.shows("a", api.ConditionNodeReady, metav1.ConditionTrue, "Ready", "the virtual node", "is Ready")
	w.shows("a", api.ConditionGranted, metav1.ConditionTrue, "Granted", "the provider grants")
	w.shows("a", api.ConditionLabelsDropped, metav1.ConditionTrue, "SentByProvider", "milan", "bourse.dev/leaving", "more")
	if cpu := node.Spec.ResourceQuota.Hard.Cpu(); cpu.String() != "1" {
		t.Errorf("1 CPU is reserved, and the node has %s", cpu)
	}

	// Liqo made it what the provider said, as the release before let it. An admin labelled and cordoned it.
	for key, value := range hostile {
		node.Spec.Labels[key] = value
	}
	node.Spec.Labels["team"], want["team"] = "data", "data"
	slice.Annotations = map[string]string{consts.CreateVirtualNodeAnnotation: "true"}
	var machine corev1.Node
	w.get("", slice.Name, &machine)
	machine.Spec.Unschedulable = true
	maps.Copy(machine.Labels, hostile)
	machine.Labels["bourse.dev/leaving"] = "1764000000"
	for _, o := range []client.Object{&node, &slice, &machine} {
		if err := w.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.borrows("b", &api.Offload{})
	want["offload.bourse.dev/b"] = "true"
	w.serve()
	slice, node = w.sliceOf()
	if !maps.Equal(node.Spec.Labels, want) || slice.Annotations[consts.CreateVirtualNodeAnnotation] != "" {
		t.Errorf("the labels are %v, want %v; Liqo's creator: %v", node.Spec.Labels, want, slice.Annotations)
	}
	if cpu := node.Spec.ResourceQuota.Hard.Cpu(); cpu.String() != "2" {
		t.Errorf("2 CPUs are reserved, and the node has %s", cpu)
	}
	if w.get("", slice.Name, &machine); !machine.Spec.Unschedulable {
		t.Error("the admin's cordon is gone")
	}

	// The provider takes back what it lends: the node has no more than that.
	w.grants = func(status *authv1beta1.ResourceSliceStatus) {
		status.Resources = corev1.ResourceList{"cpu": resource.MustParse("0")}
	}
	w.serve()
	if _, node = w.sliceOf(); !node.Spec.ResourceQuota.Hard.Cpu().IsZero() {
		t.Errorf("nothing is granted, and the node has %v", node.Spec.ResourceQuota.Hard)
	}
}

// The agent removes labels that it wrote, no others: a provider that sends an admin's label, and sends it no more,
// changes nothing about it.
func TestAProviderRemovesNoLabelOfAnAdmin(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{})
	w.serve()
	_, node := w.sliceOf()
	want := maps.Clone(node.Spec.Labels)
	want["team"], want[corev1.LabelTopologyZone] = "data", "rack-1"
	node.Spec.Labels = maps.Clone(want)
	if err := w.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	sends := func(sent map[string]string) {
		w.grants = func(status *authv1beta1.ResourceSliceStatus) {
			status.NodeLabels = sent
		}
		w.serve()
	}
	sends(map[string]string{"team": "data", corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "eu"})
	want[corev1.LabelTopologyRegion] = "eu"
	if _, node = w.sliceOf(); !maps.Equal(node.Spec.Labels, want) {
		t.Errorf("the provider sends labels: they are %v, want %v", node.Spec.Labels, want)
	}
	sends(nil)
	delete(want, corev1.LabelTopologyRegion)
	if _, node = w.sliceOf(); !maps.Equal(node.Spec.Labels, want) {
		t.Errorf("the provider sends them no more: they are %v, want %v", node.Spec.Labels, want)
	}
}

// A virtual node keeps its size and its labels while its slice has no answer, as after a restart of the provider's
// Liqo, and follows the next answer.
func TestASliceWithoutAnAnswer(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{})
	w.serve()
	_, before := w.sliceOf()
	answers := w.grants
	w.grants = func(status *authv1beta1.ResourceSliceStatus) { *status = authv1beta1.ResourceSliceStatus{} }
	w.serve()
	slice, node := w.sliceOf()
	if len(slice.Status.Conditions) > 0 || !equality.Semantic.DeepEqual(node.Spec, before.Spec) {
		t.Errorf("without an answer (%v) the node is %+v, was %+v", slice.Status, node.Spec, before.Spec)
	}

	w.borrows("b", &api.Offload{})
	w.grants = answers
	w.serve()
	if _, node = w.sliceOf(); node.Spec.ResourceQuota.Hard.Cpu().String() != "2" {
		t.Errorf("2 CPUs are reserved, and the node has %v", node.Spec.ResourceQuota.Hard)
	}
	w.shows("a", api.ConditionNodeReady, metav1.ConditionTrue, "Ready")
}

// A slice of a former release asks for a grant that covers pods that have ended, once this agent keeps its virtual
// node: Liqo brings the spec to the provider's slice, which exists, and no annotation.
func TestASliceOfAFormerReleaseAsksForTheCover(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{})
	w.serve()
	slice, _ := w.sliceOf()
	slice.Annotations = map[string]string{consts.CreateVirtualNodeAnnotation: "true"}
	slice.Spec.Resources = corev1.ResourceList(transporttest.CPU("1"))
	if err := w.Update(t.Context(), &slice); err != nil {
		t.Fatal(err)
	}
	w.serve()
	slice, node := w.sliceOf()
	keeps, cpu := slice.Spec.Resources[grant.KeepsSize], slice.Spec.Resources[corev1.ResourceCPU]
	if keeps.Value() != 1 || cpu.String() != "1" || len(slice.Annotations) > 0 {
		t.Errorf("it asks for %v, annotated %v", slice.Spec.Resources, slice.Annotations)
	}
	if hard := node.Spec.ResourceQuota.Hard; hard.Cpu().String() != "1" || len(hard) != 1 {
		t.Errorf("the virtual node has %v", hard)
	}
}

// Liqo's creator does not make a virtual node that is gone: its options send all Secrets to the provider.
func TestLiqosCreatorMakesNoVirtualNode(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{})
	w.serve()
	slice, node := w.sliceOf()
	slice.Annotations = map[string]string{consts.CreateVirtualNodeAnnotation: "true"} // as the release before left it
	if err := w.Update(t.Context(), &slice); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	w.grants = func(status *authv1beta1.ResourceSliceStatus) { *status = authv1beta1.ResourceSliceStatus{} }
	w.serve()
	w.get(slice.Namespace, slice.Name, &slice)
	if _, stands := slice.Annotations[consts.CreateVirtualNodeAnnotation]; stands {
		t.Errorf("Liqo makes the virtual node: %v", slice.Annotations)
	}
}
