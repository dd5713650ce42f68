package liqo_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// An object is touched once its time has come, and not again before as much time has passed.
func TestTouch(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"kept": "yes"}}}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(ns).Build()
	touch := func(since time.Time, changes bool) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			t.Fatal(err)
		}
		before := ns.ResourceVersion
		wait, err := liqo.Touch(t.Context(), c, ns, since, time.Hour)
		if err != nil || wait <= 0 || wait > time.Hour {
			t.Errorf("the next time is in %s, %v", wait, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil ||
			(ns.ResourceVersion != before) != changes || ns.Annotations["kept"] != "yes" {
			t.Errorf("version %s was %s, %v, %v", ns.ResourceVersion, before, ns.Annotations, err)
		}
	}
	touch(time.Now().Add(-time.Minute), false)
	touch(time.Now().Add(-2*time.Hour), true)
	touch(time.Now().Add(-2*time.Hour), false)
	if err := c.Delete(t.Context(), ns.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	ns.Annotations = nil
	if _, err := liqo.Touch(t.Context(), c, ns, time.Time{}, time.Hour); err != nil {
		t.Errorf("of one that has gone: %v", err)
	}
}
