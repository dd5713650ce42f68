package kubeobject_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// What keeps an object as it is in Git is known by a label, an annotation or a manager of fields, also after a watch
// dropped all else about those.
func TestGitOf(t *testing.T) {
	managed := func(names ...string) (out []metav1.ManagedFieldsEntry) {
		for _, name := range names {
			out = append(out, metav1.ManagedFieldsEntry{Manager: name, FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")}})
		}
		return out
	}
	for _, c := range []struct {
		meta metav1.ObjectMeta
		want string
	}{
		{metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"},
		{metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux"},
		{metav1.ObjectMeta{ManagedFields: managed("kubectl", "argocd-controller")}, "Argo CD"},
		{metav1.ObjectMeta{ManagedFields: managed("helm-controller")}, "Flux"},
		{metav1.ObjectMeta{ManagedFields: managed("kubectl", "bourse")}, ""},
	} {
		o := &api.Offer{ObjectMeta: c.meta}
		before := kubeobject.GitOf(o)
		_, err := kubeobject.StripManagedFields(o)
		if after := kubeobject.GitOf(o); before != c.want || after != c.want || err != nil {
			t.Errorf("%v is kept by %q, and %q in a watch, want %q, %v", c.meta, before, after, c.want, err)
		}
		for _, e := range o.ManagedFields {
			if e.FieldsV1 != nil {
				t.Errorf("a watch keeps %v", e)
			}
		}
	}
}
