package install_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// An admin whose cluster lends is told the command that keeps amounts from Liqo's webhook; one whose cluster only
// borrows is not. What Helm or Argo CD installed init leaves alone.
func TestInitSaysWhatLiqosWebhookLacks(t *testing.T) {
	hooks := admissionv1.SchemeGroupVersion
	rights := rbacv1.SchemeGroupVersion
	config := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: rights, Kind: "ClusterRole", Resource: "clusterroles"},
		{GroupVersion: rights, Kind: "ClusterRoleBinding", Resource: "clusterrolebindings"},
		{GroupVersion: rights, Kind: "Role", Resource: "roles", Namespaced: true},
		{GroupVersion: rights, Kind: "RoleBinding", Resource: "rolebindings", Namespaced: true},
		{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies"},
		{GroupVersion: appsv1.SchemeGroupVersion, Kind: "Deployment", Resource: "deployments", Namespaced: true},
		{GroupVersion: policyv1.SchemeGroupVersion, Kind: "PodDisruptionBudget", Resource: "poddisruptionbudgets",
			Namespaced: true},
		{GroupVersion: hooks, Kind: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations"},
		{GroupVersion: hooks, Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations"},
	}}).Config()
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.Namespace}},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "liqo-webhook", Labels: map[string]string{"liqo.io/webhook": "true"}},
			Webhooks:   []admissionv1.MutatingWebhook{{Name: "shadowpod.mutate.liqo.io"}}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	const command = "kubectl patch mutatingwebhookconfiguration liqo-webhook --patch-file config/liqo-webhook/mutating.yaml"
	lends := &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: new(int32(50))}}}
	for _, sharing := range []*api.Sharing{nil, lends} {
		var told []string
		i := install.Installation{Namespace: api.Namespace, Image: "bourse", Sharing: sharing}
		if err := i.Apply(t.Context(), config, func(line string) { told = append(told, line) }); err != nil {
			t.Fatal(err)
		}
		says := slices.ContainsFunc(told, func(line string) bool { return strings.Contains(line, command) })
		if says != (sharing != nil) {
			t.Errorf("shares %t: %q", sharing != nil, told)
		}
	}

	i := install.Installation{Namespace: api.Namespace, Image: "bourse", Liqo: true}
	err = i.Apply(t.Context(), config, func(string) {})
	if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "no namespace liqo; nothing was changed") {
		t.Errorf("without Liqo: %v", err)
	}
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "bourse-agent"}}
	for note, says := range map[string]string{"meta.helm.sh/release-name": "Helm installed bourse-agent here, as release lender",
		"argocd.argoproj.io/tracking-id": "Argo CD installed bourse-agent here"} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(agent), agent); err != nil {
			t.Fatal(err)
		}
		agent.Annotations = map[string]string{note: "lender"}
		if err := c.Update(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
		if err := i.Apply(t.Context(), config, func(string) {}); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), says) {
			t.Errorf("with annotation %s: %v", note, err)
		}
	}
}
