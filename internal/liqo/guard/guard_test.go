package guard

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/bourse-dev/bourse/api"
)

// Pods reach the internet, but neither private addresses, by any translation, nor what the policy excepts.
func TestWhatPodsDoNotReach(t *testing.T) {
	for _, o := range Objects(&corev1.Namespace{},
		&api.Sharing{Namespaces: &api.NamespacePolicy{Except: []string{"203.0.113.0/24", "2001:db8::/32"}}}) {
		p, ok := o.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		blocks := p.Spec.Egress[len(p.Spec.Egress)-1].To
		for i, want := range [][]string{{"10.0.0.0/8", "169.254.0.0/16", "203.0.113.0/24"},
			{"fc00::/7", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001:db8::/32"}} {
			for _, cidr := range want {
				if !slices.Contains(blocks[i].IPBlock.Except, cidr) {
					t.Errorf("pods reach %s: %v", cidr, blocks[i].IPBlock)
				}
			}
		}
		if slices.Contains(blocks[0].IPBlock.Except, "2001:db8::/32") || slices.Contains(private, "203.0.113.0/24") {
			t.Errorf("%v", blocks[0].IPBlock)
		}
	}
}
