package policies

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/config"
)

// By the conditions of config/liqo-webhook a webhook never gets an amount that takes long to read. What was stored
// before ends without a call, and changes in no other way. All else is called for as before.
func TestConditionsOfLiqosWebhook(t *testing.T) {
	w := start(t)
	var calls atomic.Int64
	name := w.webhook(t, &calls)
	stored := loose(t, honest("shadowpods", "stored"))
	stored.SetNamespace(byHand)
	stored.SetName("stored-behind-a-webhook")
	put(stored.Object, strings.Split("spec.pod.volumes[].emptyDir.sizeLimit", "."), slow)
	stored.SetFinalizers([]string{"bourse.dev/test"})
	bad := stored.DeepCopy()
	bad.SetName("bad")
	w.without(t, []string{"bourse-pod-amounts"}, func() error { return w.admin.Create(t.Context(), stored) })

	patch, err := yaml.YAMLToJSON(config.MutatingWebhook)
	if err != nil {
		t.Fatal(err)
	}
	hooks := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.admin.Patch(t.Context(), hooks, kube.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the conditions hold", func() error {
		err := w.admin.Create(t.Context(), bad.DeepCopy(), kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "spec.pod.volumes: an amount has at most") {
			return fmt.Errorf("it is let in: %w", err)
		}
		return nil
	})
	calls.Store(0)
	other := stored.DeepCopy()
	other.SetLabels(with(other.GetLabels(), "liqo.io/creator-user", "somebody"))
	if err := w.admin.Update(t.Context(), other); err == nil || !strings.Contains(err.Error(), "an amount has at most") {
		t.Errorf("another creator of what is stored: %v", err)
	}
	if err := w.admin.Delete(t.Context(), stored); err != nil {
		t.Errorf("the end of what is stored: %v", err)
	}
	if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(stored), stored); err != nil {
		t.Fatal(err)
	}
	forged := stored.DeepCopy()
	forged.SetFinalizers(nil)
	forged.SetLabels(with(forged.GetLabels(), "liqo.io/creator-user", "somebody"))
	if err := w.admin.Update(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "an amount has at most") {
		t.Errorf("another creator of what ends: %v", err)
	}
	stored.SetFinalizers(nil)
	if err := w.admin.Update(t.Context(), stored); err != nil {
		t.Errorf("its finalizer: %v", err)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the webhook was called %d times", n)
	}
	fine := honest("shadowpods", "fine").(*offv1beta1.ShadowPod)
	fine.Namespace = byHand
	if err := w.admin.Create(t.Context(), fine, kube.DryRunAll); err != nil || calls.Load() != 1 {
		t.Errorf("an ordinary pod: %d calls, %v", calls.Load(), err)
	}
}

// webhook stands in for Liqo's: it lets everything in, and counts.
func (w *world) webhook(t *testing.T, calls *atomic.Int64) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		calls.Add(1)
		var review admissionapi.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := json.NewEncoder(out).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	hooks := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{GenerateName: "stand-in-"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "shadowpod.mutate.liqo.io", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": byHand}},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{
				Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
				Rule: admissionv1.Rule{APIGroups: []string{offv1beta1.SchemeGroupVersion.Group}, APIVersions: []string{"v1beta1"},
					Resources: []string{"shadowpods"}}}},
		}}}
	if err := w.admin.Create(t.Context(), hooks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.Delete(context.Background(), hooks); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	probe := honest("shadowpods", "probe")
	probe.SetNamespace(byHand)
	w.eventually(t, "the webhook is called", func() error {
		if err := w.admin.Create(t.Context(), probe.DeepCopyObject().(kube.Object), kube.DryRunAll); err != nil {
			return err
		}
		if calls.Load() == 0 {
			return fmt.Errorf("no call")
		}
		return nil
	})
	return hooks.Name
}
