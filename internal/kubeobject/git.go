package kubeobject

import "sigs.k8s.io/controller-runtime/pkg/client"

// GitOf returns what makes an object as Git says, empty if nothing does.
func GitOf(o client.Object) string {
	for _, known := range []struct{ key, by string }{
		{"argocd.argoproj.io/tracking-id", "Argo CD"}, {"argocd.argoproj.io/instance", "Argo CD"},
		{"kustomize.toolkit.fluxcd.io/name", "Flux"}, {"helm.toolkit.fluxcd.io/name", "Flux"},
	} {
		if o.GetLabels()[known.key] != "" || o.GetAnnotations()[known.key] != "" {
			return known.by
		}
	}
	return ""
}
