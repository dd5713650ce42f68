package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A request for a namespace that does not exist binds no provider, and says why. One whose
// namespace is closed after it was bound is not Ready. Neither delays another request of the same
// account.
func TestBadNamespace(t *testing.T) {
	w := start(t)
	missing := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "missing"},
		Spec: api.ResourceRequestSpec{
			Request: api.Request{Resources: amounts("1", "1Gi"),
				Target: w.milan.Name}, Offload: &api.Offload{Namespaces: []string{"nosuch"}},
		}}
	opened := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "opened",
		Labels: map[string]string{api.RequestsFromLabel: "closed"}}}
	for _, o := range []kube.Object{missing, opened} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.rome.Objects.Delete(context.Background(), o) })
	}
	eventually(t, "the request says that its namespace is missing", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(missing), missing)
		if s := missing.Status; err == nil && (s.Reservation != "" ||
			!strings.Contains(s.Message, "there is no namespace nosuch")) {
			err = fmt.Errorf("it is %+v", s)
		}
		return err
	})
	closed := w.ask(t, w.rome, w.milan, "closed", amounts("1", "1Gi"),
		func(r *api.ResourceRequest) { r.Spec.Offload.Namespaces = []string{"opened"} })
	closed.becomes(api.Active)
	before := opened.DeepCopy() // Liqo writes labels of its own
	delete(opened.Labels, api.RequestsFromLabel)
	if err := w.rome.Objects.Patch(t.Context(), opened, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	good := w.ask(t, w.rome, w.milan, "good", amounts("1", "1Gi"))
	good.becomes(api.Active)
	eventually(t, "the good one is offloaded", func(ctx context.Context) error {
		var i api.ReservationInstruction
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "good", Name: good.request.Status.Reservation}, &i)
		if err == nil && !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionOffloaded) {
			err = fmt.Errorf("it is %+v", i.Status.Conditions)
		}
		return err
	})
	eventually(t, "the closed one is not Ready", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(closed.request), closed.request)
		if c := meta.FindStatusCondition(closed.request.Status.Conditions, api.ConditionReady); err == nil &&
			(c == nil || c.Reason != "NotOffloaded") {
			err = fmt.Errorf("it is %+v", c)
		}
		return err
	})
	closed.release()
	good.release()
	w.nothingLeft(t, w.rome, w.milan)
}
