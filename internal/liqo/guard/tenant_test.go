package guard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// Namespaces of one customer of a hub reach each other, and not those of another. Namespaces that
// only look like a hub's are isolated by their consumer alone.
func TestCustomersOfAHubAreIsolated(t *testing.T) {
	for name, tenant := range map[string]string{
		"agg-aaaaaaaa-bbbbbbbb-hub": "aaaaaaaa", "agg-cccccccc-dddddddd-hub": "cccccccc", "shop-hub": "",
		"agg-aaaaaaaa-bbbbbbbb-other": "", "agg-short-bbbbbbbb-hub": "", "agg-aaaaaaaa-hub": "",
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: liqo.Of("hub")}}
		for _, o := range Objects(ns, nil) {
			p, ok := o.(*networkingv1.NetworkPolicy)
			if !ok {
				continue
			}
			from := p.Spec.Ingress[0].From[0].NamespaceSelector.MatchLabels
			if from[tenantLabel] != tenant || from["liqo.io/remote-cluster-id"] != "hub" || len(p.Spec.Ingress[0].From) != 1 {
				t.Errorf("%s is reached from %v, want tenant %q", name, from, tenant)
			}
		}
	}
}
