package kubeapi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi/kubeapitest"
)

// BenchmarkRequests times requests as a client sees them, its own encoding and
// decoding included.
func BenchmarkRequests(b *testing.B) {
	cfg := newAPI(kubeapi.Options{}).Config()
	maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("ns")
	w := kubeapitest.Types()[0]
	widgets := dynamic.NewForConfigOrDie(cfg).Resource(w.GroupVersion.WithResource(w.Resource)).Namespace("ns")
	cm := configMap("a")
	cm.Data = map[string]string{"k": "v"}
	must(maps.Create(b.Context(), cm, metav1.CreateOptions{}))
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			must(maps.Get(b.Context(), "a", metav1.GetOptions{}))
		}
	})
	b.Run("update", func(b *testing.B) {
		for b.Loop() {
			cm.Data["k"] += "x"
			if len(cm.Data["k"]) > 100 {
				cm.Data["k"] = ""
			}
			must(maps.Update(b.Context(), cm, metav1.UpdateOptions{}))
		}
	})
	b.Run("create and delete", func(b *testing.B) {
		for b.Loop() {
			must(maps.Create(b.Context(), configMap("b"), metav1.CreateOptions{}))
			if err := maps.Delete(b.Context(), "b", metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("apply status", func(b *testing.B) {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w"}}}
		u.SetGroupVersionKind(w.GroupVersion.WithKind(w.Kind))
		must(widgets.Create(b.Context(), u.DeepCopy(), metav1.CreateOptions{}))
		for n := int64(0); b.Loop(); n++ {
			u.Object["status"] = map[string]any{"n": n, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
			must(widgets.ApplyStatus(b.Context(), "w", u, metav1.ApplyOptions{FieldManager: "bench", Force: true}))
		}
	})
}
