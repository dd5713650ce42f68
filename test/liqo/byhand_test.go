package liqo

import (
	"context"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/byhand"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// everyVirtualNode selects all that there are.
var everyVirtualNode = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
	MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpIn, Values: []string{"virtual-node"}}},
}}}

// A peering made by hand, with a provider that lends by Bourse too, goes on as if there were no Bourse: its own class,
// resize, the same namespace name, a pod that requests nothing, and the end.
func TestAPeeringMadeByHandIsNotTouched(t *testing.T) {
	w := start(t)
	brokered := w.ask(t, w.rome, w.paris, "beside", amounts("1", "1Gi"))
	brokered.becomes("Active")

	h := byhand.Peering{Consumer: w.milan, Provider: w.paris}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(at *federation.Member, o kube.Object, what string, is func() bool) {
		t.Helper()
		must(byhand.Has(t.Context(), at, o, what, is))
	}
	node := func(cpu string) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		has(w.milan, n, "a virtual node of "+cpu+" CPU", func() bool {
			got := n.Status.Allocatable[corev1.ResourceCPU]
			return got.String() == cpu
		})
	}
	must(h.Open(t.Context()))
	s, err := h.Slice(t.Context(), "by-hand", corev1.ResourceList(amounts("2", "4Gi")))
	must(err)
	node("2")
	if err := w.milan.Objects.Patch(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}},
		kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resources":{"cpu":"3"}}}`))); err != nil {
		t.Fatal(err)
	}
	node("3")

	must(w.milan.Objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "same"}}))
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "offloading"}, Spec: offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.EnforceSameNameMappingStrategyType, PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType,
		ClusterSelector: everyVirtualNode,
	}}
	must(w.milan.Objects.Create(t.Context(), offloading))
	has(w.milan, offloading, "namespace same is offloaded", func() bool { return offloading.Status.OffloadingPhase == offv1beta1.ReadyOffloadingPhaseType })
	grace := int64(1)
	must(w.milan.Objects.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "c", Image: "localhost/c"}},
	}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}}
	has(w.paris, pod, "the pod runs in paris", func() bool { return pod.Status.Phase == corev1.PodRunning })

	for _, o := range []kube.Object{offloading, s} {
		if err := w.milan.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the slice made by hand is gone", func(ctx context.Context) error {
		var list authv1beta1.ResourceSliceList
		err := w.paris.Objects.List(ctx, &list, kube.InNamespace("liqo-tenant-milan"))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d slices are there", len(list.Items))
		}
		return err
	})
	brokered.release()
	w.nothingLeft(t, w.rome, w.paris)
}
