package liqo

import (
	"context"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// namesIn lists the names of a list's objects.
func namesIn(list kube.ObjectList) []string {
	var names []string
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(kube.Object).GetName())
		return nil
	})
	return names
}

// From nothing to pods that run on the provider, and back to nothing.
func TestAReservationBecomesRunningPods(t *testing.T) {
	w := start(t)
	want := amounts("8", "16Gi")
	want["nvidia.com/gpu"] = resource.MustParse("1")
	a := w.ask(t, w.rome, w.milan, "chain", want)
	a.becomes(api.Active)

	slice := market.SliceName("rome", "milan", api.GeneralPool)
	var node corev1.Node
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Name: slice}, &node); err != nil {
		t.Fatal(err)
	}
	for name, amount := range want {
		if got := node.Status.Allocatable[name]; got.Cmp(amount) != 0 {
			t.Errorf("the virtual node has %s %s, reserved were %s", got.String(), name, amount.String())
		}
	}
	if node.Labels["bourse.dev/provider"] != "milan" || node.Labels["bourse.dev/pool"] != api.GeneralPool || node.Labels[corev1.LabelTopologyRegion] != "it" {
		t.Errorf("the virtual node is labelled %v", node.Labels)
	}

	a.run(20, "100m", "64Mi")
	a.running(w.milan, 20)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// What the consumer asks of Liqo is a wish: it is granted what is reserved.
func TestNothingBeyondTheReservationIsGranted(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.paris, "greedy", amounts("4", "8Gi"))
	a.becomes(api.Active)
	name := market.SliceName("rome", "paris", api.GeneralPool)
	var slice authv1beta1.ResourceSlice
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-paris", Name: name}, &slice); err != nil {
		t.Fatal(err)
	}
	before := slice.DeepCopy()
	slice.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("30")
	if err := w.rome.Objects.Patch(t.Context(), &slice, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	var granted authv1beta1.ResourceSlice
	eventually(t, "the wish has arrived, or was taken back", func(ctx context.Context) error {
		return w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-rome", Name: name}, &granted)
	})
	if got := granted.Status.Resources[corev1.ResourceCPU]; got.String() != "4" {
		t.Errorf("%s CPU are granted, 4 are reserved", got.String())
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}
