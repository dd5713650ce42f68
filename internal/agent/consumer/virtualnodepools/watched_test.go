package virtualnodepools

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// The pods of a pool's namespace are read, and each change is reported, until no pool needs them.
func TestWatched(t *testing.T) {
	config := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims",
			Namespaced: true, Status: true},
	}}).Config()
	m, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme.New(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(namespace, name string) {
		t.Helper()
		if err := c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	pod("team", "first")
	pod("other", "first")
	w, changes := &Watched{Manager: m}, make(chan bool, 100)
	in, err := w.In(t.Context(), "team", func() { changes <- true })
	if err != nil {
		t.Fatal(err)
	}
	pods := func() int {
		t.Helper()
		var list corev1.PodList
		if err := in.List(t.Context(), &list, client.InNamespace("team"), client.UnsafeDisableDeepCopy); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := pods(); n != 1 {
		t.Fatalf("it knows %d pods", n)
	}
	pod("team", "second")
	for pods() != 2 {
		select {
		case <-changes:
		case <-time.After(time.Minute):
			t.Fatal("it tells no change")
		}
	}
	if same, err := w.In(t.Context(), "team", func() {}); err != nil || same != in {
		t.Errorf("it watches twice: %v", err)
	}
	w.Only(nil)
	if again, err := w.In(t.Context(), "team", func() {}); err != nil || again == in {
		t.Errorf("it did not stop: %v", err)
	}
}
