package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A NamespaceOffloading that people made is theirs: the instruction says what to add to it, and
// goes on when that was added.
func TestAForeignOffloadingIsNotWritten(t *testing.T) {
	w := start(t)
	selects := func(peers ...string) corev1.NodeSelector {
		return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: consts.RemoteClusterID,
				Operator: corev1.NodeSelectorOpIn, Values: peers}},
		}}}
	}
	theirs := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: "offloading"},
		Spec: offv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType, PodOffloadingStrategy: offv1beta1.LocalAndRemotePodOffloadingStrategyType,
			ClusterSelector: selects("oslo"),
		}}
	a := w.ask(t, w.rome, w.milan, "theirs", amounts("1", "1Gi"), func(*api.ResourceRequest) {
		if err := w.rome.Objects.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
	})
	a.becomes(api.Active)
	instruction := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs",
		Name: a.request.Status.Reservation}}
	eventually(t, "the instruction says what to add", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(instruction), instruction); err != nil {
			return err
		}
		c := meta.FindStatusCondition(instruction.Status.Conditions, api.ConditionOffloaded)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NamespaceOffloadingForeign" ||
			!strings.Contains(c.Message, "{key: "+consts.RemoteClusterID+", operator: In, values: [milan]}") {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	var now offv1beta1.NamespaceOffloading
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKeyFromObject(theirs), &now); err != nil ||
		!equality.Semantic.DeepEqual(now.Spec, theirs.Spec) || len(now.Labels) > 0 {
		t.Errorf("it was written: %+v, %v", now, err)
	}
	before := now.DeepCopy()
	now.Spec.ClusterSelector = selects("oslo", "milan")
	if err := w.rome.Objects.Patch(t.Context(), &now, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is offloaded", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(instruction), instruction)
		if err == nil && !meta.IsStatusConditionTrue(instruction.Status.Conditions, api.ConditionOffloaded) {
			err = fmt.Errorf("it is %+v", instruction.Status.Conditions)
		}
		return err
	})
	a.run(1, "100m", "64Mi")
	a.running(w.milan, 1)
	if err := w.rome.Objects.Delete(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}
