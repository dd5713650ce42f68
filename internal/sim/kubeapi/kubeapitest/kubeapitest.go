// Package kubeapitest says what a Kubernetes API server does, as far as Bourse
// relies on it. Run passes on a real kube-apiserver and on the simulated one
// (package kubeapi): a behaviour that no test here names may differ.
//
//	api := kubeapi.New(kubeapi.Options{Types: kubeapitest.Types()})
//	kubeapitest.Run(t, api.Config())
//
// On a real server the configuration must be an administrator's, and the
// controller manager must run its garbage collector. Run installs
// CustomResourceDefinitions of its own where they are missing, works in namespaces
// of its own and deletes them at the end, without waiting.
package kubeapitest

import (
	"context"
	"embed"
	"strings"
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
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// patience is how long a test waits for what happens by itself. Nothing that
// passes comes near it.
const patience = 60 * time.Second

// version is that of all types of the suite.
var version = schema.GroupVersion{Group: "kubeapitest.bourse.dev", Version: "v1"}

//go:embed widgets.yaml gadgets.yaml
var definitions embed.FS

// Types are those that the suite works with: widgets, which have any fields, and gadgets, which have a schema.
func Types() []kubeapi.Type { return []kubeapi.Type{typeOf("widgets.yaml"), typeOf("gadgets.yaml")} }

func typeOf(file string) kubeapi.Type {
	text, err := definitions.ReadFile(file)
	var t kubeapi.Type
	if err == nil {
		t, err = kubeapi.CustomType(text)
	}
	if err != nil {
		panic(err) // the files are ours
	}
	return t
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
		{"events", testEvents},
		{"reviews", testReviews},
		{"defaults", testDefaults},
		{"schema", testSchema},
		{"strict fields", testStrict},
		{"apply lists", testApplyLists},
		{"tables", testTables},
		{"table watch", testTableWatch},
		{"metadata alone", testMetadata},
		{"delete many", testDeleteMany},
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
	return version.WithResource("widgets")
}

// install makes the server serve the types of the suite, if it does not yet.
func install(t *testing.T, cfg *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"widgets.yaml", "gadgets.yaml"} {
		of := version.WithResource(strings.TrimSuffix(file, ".yaml"))
		served := func(ctx context.Context) (bool, error) {
			_, err := client.Resource(of).Namespace("default").List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}
		if yes, _ := served(t.Context()); yes {
			continue
		}
		text, err := definitions.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			t.Fatal(err)
		}
		definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"}
		if _, err := client.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, served); err != nil {
			t.Fatalf("%s are not served: %v", of.Resource, err)
		}
	}
}
