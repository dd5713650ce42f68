package liqo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
)

// slowPod is a pod of rome at milan with an amount that takes about 2 s to read, where Liqo's webhook reads it.
func slowPod(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"pod": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "localhost/c",
			"resources": map[string]any{"requests": map[string]any{"cpu": "1e-6000000", "memory": "64Mi"}}}},
	}}}}
	o.SetGroupVersionKind(offv1beta1.SchemeGroupVersion.WithKind("ShadowPod"))
	o.SetNamespace("slow-rome")
	o.SetName(name)
	o.SetLabels(map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"})
	return o
}

// A hundred pods with an amount that takes long to read are refused before Liqo's webhook reads it. Others are
// served at once. Without the conditions of config/liqo-webhook the doctor says so.
func TestAmountsBeforeLiqosWebhook(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "slow", amounts("1", "1Gi"))
	a.becomes(api.Active)
	kubelet := w.as(t, w.rome, w.milan, "kubeconfig-resourceslice-"+market.SliceName("rome", "milan", api.GeneralPool))
	eventually(t, "rome may make pods at milan", func(ctx context.Context) error {
		return kubelet.List(ctx, &offv1beta1.ShadowPodList{}, kube.InNamespace("slow-rome"))
	})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			began := time.Now()
			err := kubelet.Create(t.Context(), slowPod(fmt.Sprintf("slow-%d", i)))
			if took := time.Since(began); err == nil || took > time.Minute ||
				!strings.Contains(err.Error(), "spec.pod.containers: an amount has at most 32 characters") {
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.milan.Objects.List(ctx, &corev1.PodList{}, kube.InNamespace("slow-rome")); err != nil {
		t.Errorf("a list: %v", err)
	}
	a.run(1, "100m", "64Mi")
	a.running(w.milan, 1)

	var hooks admissionv1.MutatingWebhookConfiguration
	key := kube.ObjectKey{Name: "liqo-webhook"}
	conditions := func(change func(*admissionv1.MutatingWebhook)) {
		if err := w.milan.Objects.Get(t.Context(), key, &hooks); err != nil {
			t.Fatal(err)
		}
		for i := range hooks.Webhooks {
			if hooks.Webhooks[i].Name == "shadowpod.mutate.liqo.io" {
				change(&hooks.Webhooks[i])
			}
		}
		if err := w.milan.Objects.Update(t.Context(), &hooks); err != nil {
			t.Fatal(err)
		}
	}
	var kept []admissionv1.MatchCondition
	conditions(func(h *admissionv1.MutatingWebhook) { kept, h.MatchConditions = h.MatchConditions, nil })
	w.finds(t, w.milan, health.AmountsUnchecked, "MutatingWebhookConfiguration liqo-webhook")
	conditions(func(h *admissionv1.MutatingWebhook) { h.MatchConditions = kept })
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}
