// Package kubeapitest says what a Kubernetes API server does, as far as Bourse
// relies on it. Run passes on a real kube-apiserver and on the simulated one
// (package kubeapi): a behaviour that no test here names may differ.
//
//	api := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{kubeapitest.Widgets()}})
//	kubeapitest.Run(t, api.Config())
//
// On a real server the configuration must be an administrator's, and the
// controller manager must run its garbage collector. Run installs a
// CustomResourceDefinition of its own where it is missing, works in namespaces
// of its own and deletes them at the end, without waiting.
package kubeapitest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// patience is how long a test waits for what happens by itself. Nothing that
// passes comes near it.
const patience = 60 * time.Second

// Widgets is the type that the suite works with: namespaced, with a status.
func Widgets() kubeapi.Type {
	return kubeapi.Type{
		GroupVersion: schema.GroupVersion{Group: "kubeapitest.bourse.dev", Version: "v1"},
		Kind:         "Widget", Resource: "widgets", Namespaced: true, Status: true, ShortNames: []string{"wd"},
	}
}

// Run checks a server, each behaviour as a subtest in a namespace of its own.
func Run(t *testing.T, cfg *rest.Config) {
	install(t, cfg)
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"discovery", testDiscovery},
		{"create", testCreate},
		{"names", testNames},
		{"update", testUpdate},
		{"generation", testGeneration},
		{"status apart", testStatus},
		{"concurrent updates", testConcurrentUpdates},
		{"dry run", testDryRun},
		{"built-in types", testBuiltIn},
		{"bad requests", testBadRequests},
		{"JSON patch", testJSONPatch},
		{"JSON patch fails", testJSONPatchFails},
		{"merge patch", testMergePatch},
		{"strategic patch", testStrategicPatch},
		{"apply", testApply},
		{"apply conflicts", testApplyConflicts},
		{"apply status", testApplyStatus},
		{"apply after update", testApplyAfterUpdate},
		{"apply built-in", testApplyBuiltIn},
		{"delete", testDelete},
		{"finalizers", testFinalizers},
		{"garbage", testGarbage},
		{"selectors", testSelectors},
		{"watch order", testWatchOrder},
		{"watch resumes", testWatchResumes},
		{"watch selectors", testWatchSelectors},
		{"watch list", testWatchList},
		{"watch from now", testWatchFromNow},
		{"watch timeout", testWatchTimeout},
		{"watch expired", testWatchExpired},
		{"informer", testInformer},
		{"reconciler", testReconciler},
		{"leader election", testLeaderElection},
		{"recorder", testRecorder},
		{"reviews", testReviews},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newSuite(t, cfg)) })
	}
}

// suite is what each test works with.
type suite struct {
	*testing.T
	ctx     context.Context
	cfg     *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	ns      string
	widgets dynamic.ResourceInterface // in ns
}

func newSuite(t *testing.T, cfg *rest.Config) *suite {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &suite{T: t, ctx: ctx, cfg: cfg}
	var err error
	s.kube, err = kubernetes.NewForConfig(cfg)
	s.ok(err)
	s.dynamic, err = dynamic.NewForConfig(cfg)
	s.ok(err)
	ns, err := s.kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeapitest-"}}, metav1.CreateOptions{})
	s.ok(err)
	s.ns = ns.Name
	s.widgets = s.dynamic.Resource(widgetsResource()).Namespace(ns.Name)
	t.Cleanup(func() {
		// t's own context is over by now.
		_ = s.kube.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	})
	// Pods are refused in a namespace without it, until a controller makes it.
	_, err = s.kube.CoreV1().ServiceAccounts(s.ns).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.ok(err)
	}
	return s
}

func widgetsResource() schema.GroupVersionResource {
	return Widgets().GroupVersion.WithResource(Widgets().Resource)
}

// install makes the server serve widgets, if it does not yet.
func install(t *testing.T, cfg *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := Widgets()
	served := func(ctx context.Context) (bool, error) {
		_, err := client.Resource(widgetsResource()).Namespace("default").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}
	if yes, _ := served(t.Context()); yes {
		return
	}
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	status := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": map[string]any{
		"conditions": map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
			"items": map[string]any{"type": "object", "required": []any{"type"}, "x-kubernetes-preserve-unknown-fields": true,
				"properties": map[string]any{"type": map[string]any{"type": "string"}}},
		},
	}}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": w.Resource + "." + w.GroupVersion.Group},
		"spec": map[string]any{
			"group": w.GroupVersion.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": w.Kind, "plural": w.Resource, "shortNames": []any{"wd"}},
			"versions": []any{map[string]any{
				"name": w.GroupVersion.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": status},
				}},
			}},
		},
	}}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io",
		Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, served); err != nil {
		t.Fatalf("widgets are not served: %v", err)
	}
}
