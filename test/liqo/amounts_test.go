package liqo

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
)

// slow is an amount that takes several minutes to read. long takes 2 s: Liqo's controllers read what is stored.
const slow, long = "1e-99999999", "1e-6000000"

// slowPod is a pod of rome at milan with an amount that takes long to read.
func slowPod(name, amount string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"pod": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "localhost/c",
			"resources": map[string]any{"requests": map[string]any{"cpu": amount, "memory": "64Mi"}}}},
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
			err := kubelet.Create(t.Context(), slowPod(fmt.Sprintf("slow-%d", i), slow))
			if took := time.Since(began); err == nil || took > time.Minute ||
				!strings.Contains(err.Error(), "spec.pod.containers: an amount has at most 32 characters") {
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
	all.Wait()
	within(t, "a list", func(ctx context.Context) error {
		return w.milan.Objects.List(ctx, &corev1.PodList{}, kube.InNamespace("slow-rome"))
	})
	within(t, "an ordinary write", func(ctx context.Context) error {
		return w.milan.Objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "slow-rome", Name: "fast"}})
	})
	a.run(1, "100m", "64Mi")
	a.running(w.milan, 1)

	calls := w.storedAmountEnds(t)
	var kept []admissionv1.MatchCondition
	w.changeWebhooks(t, func(h *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
		kept, h.MatchConditions = h.MatchConditions, nil
	})
	w.finds(t, w.milan, health.AmountsUnchecked, "MutatingWebhookConfiguration liqo-webhook")
	w.changeWebhooks(t, func(h *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) { h.MatchConditions = kept })
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	if again := w.callsOfLiqosWebhook(t, "DELETE"); again <= calls {
		t.Errorf("the ends of ordinary pods are not counted: %g calls", again-calls)
	}
}

// storedAmountEnds deletes a pod with an amount that takes long to read, which was stored when nobody checked it. It
// returns how often Liqo's webhooks were called for deletions before.
func (w *world) storedAmountEnds(t *testing.T) (calls float64) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stored-amounts"}}
	if err := w.milan.Objects.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	stored := slowPod("stored", long)
	stored.SetNamespace(namespace.Name)
	stored.SetLabels(map[string]string{"unchecked": "true"})
	again := slowPod("again", slow)
	again.SetNamespace(namespace.Name)
	again.SetLabels(stored.GetLabels())
	checked := w.selectObjects(t, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "unchecked", Operator: metav1.LabelSelectorOpDoesNotExist}}})
	eventually(t, "an amount is stored that nobody checks", func(ctx context.Context) error {
		return w.milan.Objects.Create(ctx, stored)
	})
	checked()
	before := w.callsOfLiqosWebhook(t, "CREATE")
	eventually(t, "amounts are checked again", func(ctx context.Context) error {
		if err := w.milan.Objects.Create(ctx, again.DeepCopy(), kube.DryRunAll); err == nil ||
			!strings.Contains(err.Error(), "spec.pod.containers: an amount has at most 32 characters") {
			return fmt.Errorf("it is let in: %w", err)
		}
		fine := again.DeepCopy()
		if err := unstructured.SetNestedField(fine.Object, []any{map[string]any{"name": "c", "image": "localhost/c"}},
			"spec", "pod", "containers"); err != nil {
			return err
		}
		_ = w.milan.Objects.Create(ctx, fine, kube.DryRunAll) // Liqo may refuse it: nobody peers there
		if calls := w.callsOfLiqosWebhook(t, "CREATE"); calls < before+2 {
			return fmt.Errorf("both webhooks were called %g times", calls-before)
		}
		return nil
	})
	calls = w.callsOfLiqosWebhook(t, "DELETE")
	within(t, "the end of a stored amount", func(ctx context.Context) error { return w.milan.Objects.Delete(ctx, stored) })
	eventually(t, "it is gone", func(ctx context.Context) error {
		if err := w.milan.Objects.Get(ctx, kube.ObjectKeyFromObject(stored), stored); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if n := w.callsOfLiqosWebhook(t, "DELETE") - calls; n != 0 {
		t.Errorf("Liqo's webhooks are called %g times for its end", n)
	}
	if err := w.milan.Objects.Delete(t.Context(), namespace); err != nil {
		t.Error(err)
	}
	return calls
}

// within does something that must not wait for the reading of an amount, which takes minutes.
func within(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	if err := do(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	t.Logf("%s takes %s", what, time.Since(began).Round(time.Millisecond))
}

// changeWebhooks changes Liqo's webhooks for ShadowPods at milan.
func (w *world) changeWebhooks(t *testing.T, change func(*admissionv1.MutatingWebhook, *admissionv1.ValidatingWebhook)) {
	t.Helper()
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	for _, one := range []kube.Object{&mutating, &validating} {
		if err := w.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "liqo-webhook"}, one); err != nil {
			t.Fatal(err)
		}
	}
	m := slices.IndexFunc(mutating.Webhooks, func(h admissionv1.MutatingWebhook) bool { return h.Name == "shadowpod.mutate.liqo.io" })
	v := slices.IndexFunc(validating.Webhooks,
		func(h admissionv1.ValidatingWebhook) bool { return h.Name == "shadowpod.validate.liqo.io" })
	change(&mutating.Webhooks[m], &validating.Webhooks[v])
	for _, one := range []kube.Object{&mutating, &validating} {
		if err := w.milan.Objects.Update(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
}

// selectObjects has Liqo's webhooks and our policy look at certain ShadowPods only. What it returns undoes that.
func (w *world) selectObjects(t *testing.T, only *metav1.LabelSelector) (undo func()) {
	t.Helper()
	var all []*metav1.LabelSelector
	bound := func(to *metav1.LabelSelector) {
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		if err := w.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "bourse-pod-amounts"}, &binding); err != nil {
			t.Fatal(err)
		}
		if binding.Spec.MatchResources = nil; to != nil {
			binding.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: to}
		}
		if err := w.milan.Objects.Update(t.Context(), &binding); err != nil {
			t.Fatal(err)
		}
	}
	bound(only)
	w.changeWebhooks(t, func(m *admissionv1.MutatingWebhook, v *admissionv1.ValidatingWebhook) {
		all = []*metav1.LabelSelector{m.ObjectSelector, v.ObjectSelector}
		m.ObjectSelector, v.ObjectSelector = only, only
	})
	return func() {
		bound(nil)
		w.changeWebhooks(t, func(m *admissionv1.MutatingWebhook, v *admissionv1.ValidatingWebhook) {
			m.ObjectSelector, v.ObjectSelector = all[0], all[1]
		})
	}
}

// callsOfLiqosWebhook counts the calls for ShadowPods that milan's API server made of Liqo's webhooks.
func (w *world) callsOfLiqosWebhook(t *testing.T, operation string) (calls float64) {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.milan.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counted := regexp.MustCompile(`(?m)^apiserver_admission_webhook_request_total\{[^}]*name="shadowpod\.[a-z]+\.liqo\.io",operation="` +
		operation + `"[^}]*\} (.*)$`)
	for _, found := range counted.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		calls += n
	}
	return calls
}
