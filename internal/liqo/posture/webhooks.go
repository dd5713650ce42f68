package posture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/health"
)

// webhookLabel is the label of the configurations of Liqo's webhooks.
const webhookLabel = "liqo.io/webhook"

// hook holds what decides whether the API server calls a webhook.
type hook struct {
	Name            string                         `json:"name"`
	FailurePolicy   *admissionv1.FailurePolicyType `json:"failurePolicy"`
	MatchConditions []admissionv1.MatchCondition   `json:"matchConditions"`
}

// hooks holds the webhooks of one configuration.
type hooks struct {
	kind, name string
	patch      string // the file that adds the conditions
	all        []hook
}

// UncheckedAmounts finds Liqo's webhooks that decode ShadowPods although nothing has looked at their amounts. The
// API server calls webhooks before it evaluates policies. The remedy is the command that mends it.
func UncheckedAmounts(ctx context.Context, r client.Reader) (found []api.Problem, err error) {
	wanted, err := checkedHooks()
	if err != nil {
		return nil, err
	}
	installed, err := installedHooks(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, configuration := range installed {
		for _, h := range configuration.all {
			want := slices.IndexFunc(wanted, func(w hook) bool { return w.Name == h.Name })
			if want < 0 {
				continue
			}
			if lacks := lacks(h, wanted[want]); lacks != "" {
				found = append(found, health.AmountsUnchecked.Of(configuration.kind+" "+configuration.name,
					fmt.Sprintf("kubectl patch %s %s --patch-file config/liqo-webhook/%s", strings.ToLower(configuration.kind),
						configuration.name, configuration.patch), "webhook %s: %s", h.Name, lacks))
			}
		}
	}
	return found, nil
}

// lacks returns what of the wanted webhook is missing; empty: nothing.
func lacks(have, want hook) string {
	for _, c := range want.MatchConditions {
		i := slices.IndexFunc(have.MatchConditions, func(h admissionv1.MatchCondition) bool { return h.Name == c.Name })
		if i < 0 {
			return fmt.Sprintf("the matchCondition %s is missing", c.Name)
		}
		if !equality.Semantic.DeepEqual(have.MatchConditions[i], c) {
			return fmt.Sprintf("the matchCondition %s differs from the one that this version of Bourse ships", c.Name)
		}
	}
	if have.FailurePolicy != nil && *have.FailurePolicy != *want.FailurePolicy {
		return fmt.Sprintf("failurePolicy is %s, so a matchCondition refuses nothing", *have.FailurePolicy)
	}
	return ""
}

// checkedHooks returns the webhooks with the conditions that config/liqo-webhook adds.
func checkedHooks() (all []hook, err error) {
	for _, patch := range [][]byte{config.MutatingWebhook, config.ValidatingWebhook} {
		var p struct {
			Webhooks []hook `json:"webhooks"`
		}
		if err := yaml.UnmarshalStrict(patch, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Webhooks...)
	}
	return all, nil
}

// installedHooks returns Liqo's webhooks in a cluster.
func installedHooks(ctx context.Context, r client.Reader) (all []hooks, err error) {
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := r.List(ctx, &mutating, client.MatchingLabels{webhookLabel: "true"}); err != nil {
		return nil, err
	}
	for _, c := range mutating.Items {
		found := hooks{kind: "MutatingWebhookConfiguration", name: c.Name, patch: "mutating.yaml"}
		for _, w := range c.Webhooks {
			found.all = append(found.all, hook{w.Name, w.FailurePolicy, w.MatchConditions})
		}
		all = append(all, found)
	}
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := r.List(ctx, &validating, client.MatchingLabels{webhookLabel: "true"}); err != nil {
		return nil, err
	}
	for _, c := range validating.Items {
		found := hooks{kind: "ValidatingWebhookConfiguration", name: c.Name, patch: "validating.yaml"}
		for _, w := range c.Webhooks {
			found.all = append(found.all, hook{w.Name, w.FailurePolicy, w.MatchConditions})
		}
		all = append(all, found)
	}
	return all, nil
}

// amounts looks whether Liqo's webhooks decode amounts that nothing has looked at.
func (i *Inspection) amounts(ctx context.Context) ([]api.Problem, error) {
	if !i.Lends {
		return nil, nil
	}
	return UncheckedAmounts(ctx, i.Reader)
}
