package posture

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

type (
	mutating   = admissionv1.MutatingWebhookConfiguration
	validating = admissionv1.ValidatingWebhookConfiguration
)

// webhooks are those of Liqo, with the conditions of config/liqo-webhook, beside one of Liqo's that reads no amounts.
func webhooks(t *testing.T) (*mutating, *validating) {
	t.Helper()
	checked, err := checkedHooks()
	if err != nil || len(checked) != 2 || checked[0].Name != "shadowpod.mutate.liqo.io" ||
		checked[1].Name != "shadowpod.validate.liqo.io" {
		t.Fatalf("%+v, %v", checked, err)
	}
	meta := metav1.ObjectMeta{Name: "liqo-webhook", Labels: map[string]string{webhookLabel: "true"}}
	return &mutating{ObjectMeta: *meta.DeepCopy(),
			Webhooks: []admissionv1.MutatingWebhook{{Name: "pod.mutate.liqo.io"}, {Name: checked[0].Name,
				FailurePolicy: checked[0].FailurePolicy, MatchConditions: slices.Clone(checked[0].MatchConditions)}}},
		&validating{ObjectMeta: *meta.DeepCopy(),
			Webhooks: []admissionv1.ValidatingWebhook{{Name: checked[1].Name,
				FailurePolicy: checked[1].FailurePolicy, MatchConditions: slices.Clone(checked[1].MatchConditions)}}}
}

// A webhook that would decode amounts that nobody has looked at is found, with the command that mends it.
func TestUncheckedAmounts(t *testing.T) {
	ignore := admissionv1.Ignore
	for name, c := range map[string]struct {
		change func(*mutating, *validating)
		want   string // a part of the only problem
	}{
		"nothing": {func(*mutating, *validating) {}, ""},
		"no conditions": {func(m *mutating, _ *validating) {
			m.Webhooks[1].MatchConditions = nil
		}, "bourse-amounts-containers is missing"},
		"one condition less": {func(_ *mutating, v *validating) {
			v.Webhooks[0].MatchConditions = v.Webhooks[0].MatchConditions[1:]
		}, "bourse-amounts-containers is missing"},
		"another condition": {func(m *mutating, _ *validating) {
			m.Webhooks[1].MatchConditions[2].Expression = "true"
		}, "differs"},
		"a webhook that is skipped": {func(_ *mutating, v *validating) {
			v.Webhooks[0].FailurePolicy = &ignore
		}, "failurePolicy is Ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := webhooks(t)
			c.change(m, v)
			found, err := UncheckedAmounts(t.Context(), fake.NewClientBuilder().WithObjects(m, v).Build())
			if c.want == "" {
				if err != nil || len(found) > 0 {
					t.Errorf("%+v, %v", found, err)
				}
				return
			}
			if err != nil || len(found) != 1 || !strings.Contains(found[0].Detail, c.want) ||
				!strings.HasPrefix(found[0].Remedy, "kubectl patch ") ||
				!strings.Contains(found[0].Remedy, " liqo-webhook --patch-file config/liqo-webhook/") {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}
