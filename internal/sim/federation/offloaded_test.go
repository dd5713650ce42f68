package federation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A request shows that its namespaces are not offloaded as soon as its instruction does, and no
// longer once they are.
func TestNotOffloaded(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	one := cores("1", 0)
	one.Wait = nil
	r := f.makes(f.rome, "web", one, api.Reserved)
	for _, offloaded := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		i := &api.ReservationInstruction{}
		f.until("rome is instructed", func() bool {
			return f.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "default", Name: r.ID}, i) == nil
		})
		before := i.DeepCopy()
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{
			Type: api.ConditionOffloaded, Status: offloaded, Reason: "Liqo", Message: "namespace web is closed"})
		if err := f.rome.Objects.Status().Patch(t.Context(), i, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		f.becomes(f.rome, "web", func(s api.ResourceRequestStatus) bool {
			ready := meta.FindStatusCondition(s.Conditions, api.ConditionReady)
			return ready != nil && ready.Status == offloaded && (ready.Reason == "NotOffloaded") == (offloaded == metav1.ConditionFalse)
		})
	}
}
