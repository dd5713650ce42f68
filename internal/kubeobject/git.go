package kubeobject

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gitMarks are labels and annotations of what is made as Git says, and gitManagers are the managers of its fields.
var (
	gitMarks = []struct{ key, by string }{
		{"argocd.argoproj.io/tracking-id", "Argo CD"}, {"argocd.argoproj.io/instance", "Argo CD"},
		{"kustomize.toolkit.fluxcd.io/name", "Flux"}, {"helm.toolkit.fluxcd.io/name", "Flux"},
	}
	gitManagers = map[string]string{"argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
		"kustomize-controller": "Flux", "helm-controller": "Flux"}
)

// GitOf returns what makes an object as Git says, empty if nothing does.
func GitOf(o client.Object) string {
	for _, mark := range gitMarks {
		if o.GetLabels()[mark.key] != "" || o.GetAnnotations()[mark.key] != "" {
			return mark.by
		}
	}
	for _, fields := range o.GetManagedFields() {
		if by := gitManagers[fields.Manager]; by != "" {
			return by
		}
	}
	return ""
}

// StripManagedFields drops what an object says of the managers of its fields, but the names by which GitOf knows one. A
// watch calls it for each object that it keeps. Errors: none.
func StripManagedFields(o any) (any, error) {
	if of, err := meta.Accessor(o); err == nil {
		kept := slices.DeleteFunc(of.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return gitManagers[e.Manager] == "" })
		for i := range kept {
			kept[i] = metav1.ManagedFieldsEntry{Manager: kept[i].Manager}
		}
		of.SetManagedFields(slices.Clip(kept))
	}
	return o, nil
}
