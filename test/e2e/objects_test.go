package e2e

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// What the API server refuses before an agent sees it, and that it says why in our words.
func TestAPIServerRefuses(t *testing.T) {
	w := start(t)
	request := func(spec api.Request) kube.Object {
		return &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "refused"},
			Spec: api.ResourceRequestSpec{Request: spec}}
	}
	policy := func(name, pool string) kube.Object {
		return &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: pool}}}}
	}
	raw := func(kind, field, text string, spec map[string]any) kube.Object {
		spec[field] = text
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api.GroupVersion.String(), "kind": kind, "spec": spec}}
		o.SetName("default")
		if kind == "ResourceRequest" {
			o.SetNamespace("default")
		}
		return o
	}
	one := func() map[string]any { return map[string]any{"resources": map[string]any{"cpu": "1"}} }
	pools := func() map[string]any { return map[string]any{"pools": []any{map[string]any{"name": "general"}}} }
	for _, c := range []struct {
		name   string
		object kube.Object
		says   string
	}{
		// An agent that cannot read one object would see no further object of its kind.
		{"a duration in days", raw("ResourceRequest", "duration", "1d", one()), "spec.duration"},
		{"an endless duration", raw("ResourceRequest", "duration", "99999999h", one()), "spec.duration"},
		{"an empty wait", raw("ResourceRequest", "wait", "", one()), "spec.wait"},
		{"a policy's duration in days", raw("SharingPolicy", "maxDuration", "7d", pools()), "spec.maxDuration"},
		{"a policy's time in words", raw("SharingPolicy", "approveWithin", "a day", pools()), "spec.approveWithin"},
		{"a policy of another name", policy("other", api.GeneralPool), `the SharingPolicy of a cluster is named "default"`},
		{"an agent's record of another name", &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
			`the Agent of a cluster is named "default"`},
		{"a policy of another pool", policy("default", "GPUs"), "spec.pools[0].name"},
		{"a policy without a pool", &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, "spec.pools"},
		{"an empty request", request(api.Request{Resources: api.Resources{}}), "ask for 1 to 64 resources"},
		{"a request without resources", request(api.Request{}), "ask for 1 to 64 resources, or for a plan of an offer"},
		{"an unknown strategy", request(api.Request{Resources: cpu("1"), Strategy: "greedy"}), "spec.strategy"},
		{"an endless expression", request(api.Request{Resources: cpu("1"), Where: strings.Repeat("x", 2049)}), "spec.where"},
	} {
		// rome shares nothing, so that no policy is there yet.
		if err := w.rome.Objects.Create(t.Context(), c.object, kube.DryRunAll); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	for _, good := range []string{"1h", "1.5h", "90m", "1h0m0.25s", "500ms"} {
		if err := w.rome.Objects.Create(t.Context(), raw("ResourceRequest", "duration", good, one()), kube.DryRunAll); err != nil {
			t.Errorf("a duration of %s: %v", good, err)
		}
	}

	r := ask(t, w.rome, "default", "unchanged", api.Request{Resources: cpu("1"), Prefer: []string{"milan"}})
	becomes(t, w.rome, r, api.Reserved)
	for name, change := range map[string]string{
		"where":              `{"spec": {"where": "true"}}`,
		"preference":         `{"spec": {"prefer": ["paris"]}}`,
		"offloading":         `{"spec": {"offload": {"namespaces": ["default"]}}}`,
		"strategy, once set": `{"spec": {"strategy": "pack"}}`,
		"shape of pods":      `{"spec": {"podShape": {"cpu": "1"}}}`,
	} {
		err := w.rome.Objects.Patch(t.Context(), r.DeepCopy(), kube.RawPatch("application/merge-patch+json", []byte(change)))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
			"only the resources, the units and the duration of a request can change: delete it and make another") {
			t.Errorf("a request changes its %s: %v", name, err)
		}
	}
	label := []byte(`{"metadata": {"labels": {"a": "b"}}}`)
	if err := w.rome.Objects.Patch(t.Context(), r.DeepCopy(),
		kube.RawPatch("application/merge-patch+json", label)); err != nil {
		t.Errorf("a request is labelled: %v", err)
	}
}

// A SharingPolicy of an earlier version is still valid, and keeps the fields that no longer have an
// effect, so that the agent can name them.
func TestAPIServerKeepsIgnoredFields(t *testing.T) {
	w := start(t)
	strict := kube.WithFieldValidation(w.rome.Objects, "Strict")
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "SharingPolicy", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"resourcePlugin": "liqo-fixed-resources-plugin.liqo:6001", "pools": []any{map[string]any{
			"name": "general", "placeholders": map[string]any{"priorityClass": "bourse-placeholder",
				"image": "registry.k8s.io/pause:3.10"},
		}}},
	}}
	want, _, _ := unstructured.NestedMap(policy.Object, "spec")
	if err := strict.Create(t.Context(), policy, kube.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got, _, err := unstructured.NestedMap(policy.Object, "spec"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the API server keeps %v, %v", got, err)
	}
}

// The examples of docs/objects are what the API server takes. Some are of what agents write: these
// are looked at by the tests of the documentation.
func TestExamplesApply(t *testing.T) {
	w := start(t)
	for _, name := range []string{"sharingpolicy.yaml", "resourcerequest.yaml", "offer.yaml"} {
		for _, o := range objects(t, w.Path(filepath.Join("docs/objects", name))) {
			strict := kube.WithFieldValidation(w.rome.Objects, "Strict")
			if err := strict.Create(t.Context(), o, kube.DryRunAll); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
