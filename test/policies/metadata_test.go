package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
)

// fieldsEntry makes an entry of managedFields with some thousand names that no field has.
func fieldsEntry(manager, operation string, names int, path ...string) metav1.ManagedFieldsEntry {
	leaves := map[string]any{}
	for i := range names {
		leaves[fmt.Sprintf("f:n%d", i)] = map[string]any{}
	}
	var fields any = leaves
	for i := range path {
		fields = map[string]any{path[len(path)-1-i]: fields}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation),
		APIVersion: api.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: text},
		Time: &metav1.Time{Time: time.Unix(1_700_000_000, 0)}}
}

func many(from string, n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("example.com/%s%d", from, i)] = "x"
	}
	return all
}

func owner(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID("uid-" + name)}
}

// hostile is what nobody adds to the metadata of sessions and requests, with what the refusal says.
func hostile(isSession bool) map[string]struct {
	says   string
	change func(kube.Object)
} {
	type bad = struct {
		says   string
		change func(kube.Object)
	}
	labels, bytes, fields := 33, 1025, 700
	if !isSession {
		labels, bytes, fields = 65, 32769, 5000
	}
	note := func(value string) func(kube.Object) {
		return func(o kube.Object) { o.SetAnnotations(map[string]string{"n": value}) }
	}
	fieldsOf := func(entries ...metav1.ManagedFieldsEntry) bad {
		return bad{"managedFields is too large", func(o kube.Object) { o.SetManagedFields(entries) }}
	}
	var managers []metav1.ManagedFieldsEntry
	for i := range 40 {
		managers = append(managers, fieldsEntry(fmt.Sprint("manager", i), "Apply", 1, "f:metadata", "f:annotations"))
	}
	all := map[string]bad{
		"a finalizer":     {"adds finalizers", func(o kube.Object) { o.SetFinalizers([]string{"example.com/never"}) }},
		"many labels":     {"are too large", func(o kube.Object) { o.SetLabels(many("l", labels)) }},
		"long ones":       {"are too large", note(strings.Repeat("x", bytes))},
		"long in bytes":   {"are too large", note(strings.Repeat("é", bytes/2+1))},
		"5,000 labels":    {"are too large", func(o kube.Object) { o.SetLabels(many("l", 5000)) }},
		"fields, applied": fieldsOf(fieldsEntry("any", "Apply", fields, "f:metadata", "f:annotations")),
		"fields, its own": fieldsOf(fieldsEntry("itself", "Update", fields, "f:metadata", "f:annotations")),
		"fields of spec":  fieldsOf(fieldsEntry("any", "Apply", fields, "f:spec")),
		"fields on top":   fieldsOf(fieldsEntry("any", "Apply", fields)),
		"fields deep":     fieldsOf(fieldsEntry("any", "Apply", 1, "f:a", "f:b", "f:c", "f:d", "f:e", "f:g")),
		"fields, 8,000":   fieldsOf(fieldsEntry("any", "Apply", 8000, "f:metadata", "f:labels")),
		"a long field":    fieldsOf(fieldsEntry("any", "Apply", 1, "f:metadata", "f:"+strings.Repeat("x", 70_000))),
		"many managers":   fieldsOf(managers...),
	}
	owners := func(all ...metav1.OwnerReference) func(kube.Object) {
		return func(o kube.Object) { o.SetOwnerReferences(all) }
	}
	if isSession {
		all["an owner"] = bad{"a session has no owner", owners(owner("x"))}
		all["a request's finalizer"] = bad{"adds finalizers", func(o kube.Object) { o.SetFinalizers([]string{api.VolumesFinalizer}) }}
		return all
	}
	var nine []metav1.OwnerReference
	for i := range 9 {
		nine = append(nine, owner(fmt.Sprint("x", i)))
	}
	all["nine owners"] = bad{"at most 8", owners(nine...)}
	all["a long owner"] = bad{"at most 8", owners(owner(strings.Repeat("x", 254)))}
	return all
}

// Who may make a session or a request stores little more than its spec: not by labels, annotations, finalizers or
// owners, nor by what the API server itself notes about fields.
func TestBoundsOfMetadata(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	if err := errors.Join(w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "filler"),
		w.bind(t.Context(), "", "bourse-viewer", rbacv1.UserKind, "filler")); err != nil {
		t.Fatal(err)
	}
	by := w.user(t, "filler")
	probe := session(own, "probe")
	probe.Finalizers = []string{"example.com/never"}
	w.eventually(t, "the policy is in force", func() error {
		if err := by.Create(t.Context(), probe.DeepCopy(), kube.DryRunAll); !isRefusal(err, "adds finalizers") {
			return fmt.Errorf("it says %w", err)
		}
		return by.Create(t.Context(), clusterSession("probe"), kube.DryRunAll)
	})
	request, proposal := example(t), exampleOf(t, "proposal")
	for what, make := range map[string]func() kube.Object{
		"a session":        func() kube.Object { return session(own, "filled") },
		"a clustersession": func() kube.Object { return clusterSession("filled") },
		"a request":        func() kube.Object { return request.DeepCopy() },
		"a proposal":       func() kube.Object { return proposal.DeepCopy() },
	} {
		_, isRequest := make().(*unstructured.Unstructured)
		for how, bad := range hostile(!isRequest) {
			o := make()
			bad.change(o)
			begin := time.Now()
			err := by.Create(t.Context(), o, kube.DryRunAll, kube.FieldOwner("itself"))
			if !isRefusal(err, bad.says) {
				t.Errorf("%s is made with %s: %.300v", what, how, err)
			}
			t.Logf("%s with %s: %s", what, how, time.Since(begin).Round(time.Millisecond))
		}
	}

	// a request may be changed by its requester
	there := request.DeepCopy()
	if err := by.Create(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.admin.Delete(t.Context(), there) }()
	for how, bad := range hostile(false) {
		o := there.DeepCopy()
		bad.change(o)
		if err := by.Update(t.Context(), o, kube.DryRunAll, kube.FieldOwner("itself")); !isRefusal(err, bad.says) {
			t.Errorf("a request gets %s: %.300v", how, err)
		}
	}
	o := there.DeepCopy()
	o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry("agent", "Update", 5000, "f:status")})
	if err := by.Update(t.Context(), o, kube.DryRunAll); !isRefusal(err, "managedFields is too large") {
		t.Errorf("a request gets fields of its status: %.300v", err)
	}
}

// example returns the request of docs/objects, which has each field, in a namespace here.
func example(t *testing.T) *unstructured.Unstructured { return exampleOf(t, "resourcerequest") }

// exampleOf is example for another kind.
func exampleOf(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "objects", kind+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace(own)
	o.SetName("filled")
	return o
}

// lastApplied is the annotation of `kubectl apply`: the object itself.
func lastApplied(t *testing.T, o kube.Object) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	o.SetAnnotations(with(o.GetAnnotations(), "kubectl.kubernetes.io/last-applied-configuration", string(text)))
}

// What honest tools write stays far below the bounds: kubectl create, apply (both), annotate, Helm, Argo CD, Flux, an
// operator that owns a request; and what the agent writes.
func TestHonestMetadata(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	agent := w.asAgent(t)
	if err := w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "honest"); err != nil {
		t.Fatal(err)
	}
	by := w.user(t, "honest")
	w.eventually(t, "the binding is known",
		func() error { return by.Create(t.Context(), session(own, "probe"), kube.DryRunAll) })

	applied := session(own, "applied")
	applied.Labels = map[string]string{"app.kubernetes.io/managed-by": "bourse"}
	applied.SetGroupVersionKind(api.GroupVersion.WithKind("Session"))
	lastApplied(t, applied)
	generated := session(own, "")
	generated.GenerateName = "anna-"
	for what, o := range map[string]*api.Session{"kubectl apply": applied, "a generated name": generated} {
		if err := by.Create(t.Context(), o, kube.FieldOwner("kubectl-client-side-apply")); err != nil {
			t.Errorf("%s of a session: %v", what, err)
		}
		defer func() { _ = w.admin.Delete(t.Context(), o) }()
	}
	annotate := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"x"},"labels":{"a":"b"}}}`))
	if err := w.admin.Patch(t.Context(), applied, annotate); err != nil {
		t.Errorf("an admin annotates a session: %v", err)
	}

	request := example(t)
	lastApplied(t, request)
	request.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "team-1.0.0",
		"kustomize.toolkit.fluxcd.io/name": "team", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
	notes := with(request.GetAnnotations(), "meta.helm.sh/release-name", "team")
	notes["argocd.argoproj.io/tracking-id"] = "team:bourse.dev/ResourceRequest:" + own + "/filled"
	request.SetAnnotations(notes)
	request.SetOwnerReferences([]metav1.OwnerReference{owner("order")})
	request.SetName("honest")
	if err := by.Create(t.Context(), request, kube.FieldOwner("kubectl-client-side-apply")); err != nil {
		t.Fatalf("kubectl apply of a request: %v", err)
	}
	defer w.remove(t, request)
	for i := range 12 { // each with a record of its own
		o := example(t)
		o.SetName("honest")
		if i > 0 {
			o.SetAnnotations(map[string]string{fmt.Sprint("tool", i): "x"})
		}
		//lint:ignore SA1019 the other Apply takes no unstructured object
		err := by.Patch(t.Context(), o, kube.Apply, kube.ForceOwnership, kube.FieldOwner(fmt.Sprint("tool", i)))
		if err != nil {
			t.Errorf("tool %d applies the request: %v", i, err)
		}
	}
	if err := by.Patch(t.Context(), request, annotate, kube.FieldOwner("kubectl-annotate")); err != nil {
		t.Errorf("kubectl annotate of a request: %v", err)
	}
	as := w.mustAs(t, agent)
	for what, patch := range map[string]string{
		"its finalizer":     `{"metadata":{"finalizers":["bourse.dev/volumes"]}}`,
		"a confirmation":    `{"metadata":{"annotations":{"bourse.dev/confirm":"true"}}}`,
		"its finalizer off": `{"metadata":{"finalizers":null}}`,
	} {
		if err := as.Patch(t.Context(), request, kube.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Errorf("the agent writes %s: %v", what, err)
		}
	}
	// a copy of what kubectl get prints
	copied := example(t)
	copied.SetName("copied")
	copied.SetFinalizers([]string{api.VolumesFinalizer})
	copied.SetManagedFields(request.GetManagedFields())
	if err := by.Create(t.Context(), copied, kube.DryRunAll); err != nil {
		t.Errorf("a copy of a request is made: %v", err)
	}
}

// What is there already, by whomever, stays and goes: a finalizer and an owner that an admin of before wrote.
func TestMetadataOfBefore(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	old := session(own, "old")
	old.Labels, old.OwnerReferences = many("l", 33), []metav1.OwnerReference{owner("x")}
	old.Finalizers = []string{"example.com/old", "example.com/older"}
	free := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	w.without(t, []string{"bourse-metadata"}, func() error { return w.admin.Create(t.Context(), old) })
	defer w.remove(t, old)
	w.eventually(t, "the policy is in force", func() error {
		more := old.DeepCopy()
		more.Finalizers = append(more.Finalizers, "example.com/new")
		if err := w.admin.Update(t.Context(), more, kube.DryRunAll); !isRefusal(err, "adds finalizers") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	large := example(t)
	large.SetName("large")
	large.SetLabels(many("l", 65))
	large.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry("any", "Apply", 5000, "f:spec")})
	large.SetFinalizers([]string{api.VolumesFinalizer})
	w.without(t, []string{"bourse-metadata"}, func() error { return w.admin.Create(t.Context(), large) })
	w.eventually(t, "the policy is in force again", func() error {
		if err := w.admin.Patch(t.Context(), large, free, kube.DryRunAll); !isRefusal(err, "managedFields is too large") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if err := w.mustAs(t, w.asAgent(t)).Patch(t.Context(), large, free); err != nil {
		t.Errorf("the agent takes its finalizer off: %v", err)
	}
	w.remove(t, large)
	less := old.DeepCopy()
	less.Labels = nil
	if err := w.admin.Update(t.Context(), less, kube.DryRunAll); err != nil {
		t.Errorf("an admin takes labels off: %v", err)
	}
	less.Labels = with(old.Labels, "one", "more")
	if err := w.admin.Update(t.Context(), less, kube.DryRunAll); !isRefusal(err, "are too large") {
		t.Errorf("an admin adds one to too many labels: %v", err)
	}
	less = old.DeepCopy()
	less.Finalizers = less.Finalizers[:1]
	if err := w.admin.Update(t.Context(), less); err != nil {
		t.Errorf("a finalizer is taken off: %v", err)
	}
}
