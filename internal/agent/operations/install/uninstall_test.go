package install_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Peerings that nothing uses are in the way of uninstall only until the agent closes them: it says
// so, lists what it would remove with DryRun, and waits for them with Wait.
func TestUninstallWithLingeringPeerings(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Peering", Resource: "peerings", Namespaced: true, Status: true},
		{GroupVersion: schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"},
			Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"},
		{GroupVersion: appsv1.SchemeGroupVersion, Kind: "Deployment", Resource: "deployments", Namespaced: true},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	p := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "milan.provider"}}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	p.Status.State, p.Status.Since = api.PeeringLingering, &now
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	r := install.Removal{Namespace: "bourse", LiqoNamespace: "liqo", Tell: func(step string) { said <- step }}
	err = install.Uninstall(t.Context(), k.Config(), r)
	if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "milan.provider (unused since ") ||
		!strings.Contains(err.Error(), "--wait") || !strings.Contains(err.Error(), "install it again first") {
		t.Errorf("it was refused with %v", err)
	}
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-agent"}}
	if err := c.Create(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	err = install.Uninstall(t.Context(), k.Config(), r)
	if api.CodeOf(err) != api.CodeConflict || strings.Contains(err.Error(), "install it again first") {
		t.Errorf("where the agent runs it was refused with %v", err)
	}
	r.DryRun = true
	if err := install.Uninstall(t.Context(), k.Config(), r); err != nil {
		t.Errorf("DryRun: %v", err)
	}
	if first := <-said; !strings.HasPrefix(first, "not yet: ") {
		t.Errorf("DryRun says first %q", first)
	}
	for len(said) > 0 {
		<-said
	}
	r.DryRun, r.Wait = false, true
	done := make(chan error, 1)
	go func() { done <- install.Uninstall(t.Context(), k.Config(), r) }()
	select {
	case step := <-said:
		if !strings.HasPrefix(step, "waiting: ") {
			t.Errorf("Wait says first %q", step)
		}
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("nothing is said")
	}
	if err := c.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Wait: %v", err)
	}
}

// A broker in the same cluster keeps its rights, its policies and its members' objects. The agent's record goes with the
// agent's namespace, that of an agent elsewhere stays.
func TestUninstallBesideABroker(t *testing.T) {
	crds := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: rbacv1.SchemeGroupVersion, Kind: "ClusterRole", Resource: "clusterroles"},
		{GroupVersion: crds, Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"},
		{GroupVersion: api.GroupVersion, Kind: "Agent", Resource: "agents"},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(crds.WithKind("CustomResourceDefinition"))
	kind.SetName("peers." + api.Group)
	broker := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bourse-broker-kubernetes"}}
	agent := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bourse-agent"}}
	record := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}, Status: api.RecordedAgent{Namespace: "bourse"}}
	for _, o := range []client.Object{kind, broker, agent, record} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"elsewhere", "bourse"} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil {
			t.Errorf("the agent's record, before %s is left: %v", namespace, err)
		}
		r := install.Removal{Namespace: namespace, LiqoNamespace: "liqo", Tell: func(step string) { t.Log(step) }}
		if err := install.Uninstall(t.Context(), k.Config(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(record), record); !apierrors.IsNotFound(err) {
		t.Errorf("the agent's record is still there: %v", err)
	}
	for _, o := range []client.Object{kind, broker} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("the broker lost %s: %v", o.GetName(), err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(agent), agent); !apierrors.IsNotFound(err) {
		t.Errorf("the agent's role is still there: %v", err)
	}
}

// Bourse's kinds go with it, and those of others stay. DryRun removes none.
func TestUninstallRemovesItsKinds(t *testing.T) {
	crds := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: crds, Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"peers." + api.Group, "offers." + api.Group, "widgets.example.com"} {
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(crds.WithKind("CustomResourceDefinition"))
		kind.SetName(name)
		if err := c.Create(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	for _, dry := range []bool{true, false} {
		var told []string
		r := install.Removal{Namespace: "bourse", LiqoNamespace: "liqo", DryRun: dry,
			Tell: func(step string) { told = append(told, step) }}
		if err := install.Uninstall(t.Context(), k.Config(), r); err != nil {
			t.Fatal(err)
		}
		step := "delete CustomResourceDefinition peers." + api.Group
		if text := strings.Join(told, "\n"); !strings.Contains(text, step) {
			t.Errorf("it tells of %s", text)
		}
		left := &unstructured.UnstructuredList{}
		left.SetGroupVersionKind(crds.WithKind("CustomResourceDefinitionList"))
		if err := c.List(t.Context(), left); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 3, false: 1}[dry]; len(left.Items) != want {
			t.Errorf("DryRun %t: %d kinds are left, want %d", dry, len(left.Items), want)
		}
	}
}
