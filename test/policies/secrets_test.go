package policies

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Who has all Secrets of a namespace copied to a provider may list them here, in each namespace that the request
// names. Others ask for the rest, and change what they may change.
func TestWhoHasAllSecretsCopied(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	if err := errors.Join(
		w.admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}}),
		w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "tenant-of-secrets"),
		w.bind(t.Context(), own, "bourse-reflect", rbacv1.UserKind, "tenant-of-secrets"),
		w.bind(t.Context(), own, "secrets", rbacv1.UserKind, "tenant-of-secrets"),
		w.bind(t.Context(), mapped, "bourse-requester", rbacv1.UserKind, "tenant-of-secrets")); err != nil {
		t.Fatal(err)
	}
	by := func(name string, groups ...string) kube.Client {
		return w.mustAs(t, account{name, rest.ImpersonationConfig{UserName: name, Groups: groups}})
	}
	tenants := by("tenant-of-secrets")
	request := func(name string, secrets api.ReflectPolicy, namespaces ...string) *api.ResourceRequest {
		r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name}}
		r.Spec.Resources = api.Resources{"cpu": resource.MustParse("1")}
		r.Spec.Offload = &api.Offload{Namespaces: namespaces, Reflect: &api.Reflect{Secrets: secrets}}
		return r
	}
	var others, all []string // namespaces need not exist
	for i := range 16 {
		others, all = append(others, own), append(all, fmt.Sprint("n", i))
	}
	w.eventually(t, "the policy is in force", func() error {
		err := tenants.Create(t.Context(), request("probe", api.ReflectAll, mapped), kube.DryRunAll)
		if !isRefusal(err, "list secrets") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if err := tenants.Create(t.Context(), request("own", api.ReflectAll, others...), kube.DryRunAll); err != nil {
		t.Errorf("its own namespace: %v", err)
	}
	for i := range others { // a check for each place
		names := append([]string{}, others...)
		names[i] = mapped
		err := tenants.Create(t.Context(), request("place", api.ReflectAll, names...), kube.DryRunAll)
		if !isRefusal(err, "list secrets in namespace "+mapped) {
			t.Errorf("place %d: %v", i, err)
		}
	}
	for what, names := range map[string][]string{"an empty list": {}, "no list": nil} { // there is no default
		if err := tenants.Create(t.Context(), request("none", api.ReflectAll, names...), kube.DryRunAll); err == nil ||
			!strings.Contains(err.Error(), "spec.offload.namespaces") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, secrets := range []api.ReflectPolicy{"", api.ReflectAllowList, api.ReflectNone} {
		if err := tenants.Create(t.Context(), request("fewer", secrets, mapped), kube.DryRunAll); err != nil {
			t.Errorf("Secrets %q: %v", secrets, err)
		}
	}
	without := request("without", "", mapped)
	without.Spec.Offload = nil
	if err := tenants.Create(t.Context(), without, kube.DryRunAll); err != nil {
		t.Errorf("without offload: %v", err)
	}
	admin := by("an-admin", "system:masters")
	made := request("all", api.ReflectAll, all...)
	if err := admin.Create(t.Context(), made); err != nil {
		t.Fatalf("an admin, with 16 namespaces: %v", err)
	}
	defer func() { _ = admin.Delete(t.Context(), made) }()
	larger := made.DeepCopy()
	larger.Spec.Resources["cpu"] = resource.MustParse("2")
	if err := tenants.Patch(t.Context(), larger, kube.MergeFrom(made), kube.DryRunAll); err != nil {
		t.Errorf("another resizes it: %v", err)
	}
	plain := request("plain", "", own)
	if err := tenants.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Delete(t.Context(), plain) }()
	edited := plain.DeepCopy()
	edited.Spec.Offload.Namespaces, edited.Spec.Offload.Reflect = []string{mapped}, &api.Reflect{Secrets: api.ReflectAll}
	if err := tenants.Patch(t.Context(), edited, kube.MergeFrom(plain), kube.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), "list secrets") && !strings.Contains(err.Error(), "only the resources") {
		t.Errorf("it edits offload: %v", err)
	}
	if err := by("system:serviceaccount:bourse:bourse-agent", "system:masters").Create(t.Context(),
		request("agent", api.ReflectAll, mapped), kube.DryRunAll); err != nil {
		t.Errorf("the agent: %v", err)
	}
}

// What is copied of all namespaces at a provider, a tenant's request does not decide, unless an admin gave the right:
// neither more than usual, which keeps others away, nor less, which keeps at home what their pods need.
func TestWhoChoosesWhatIsCopied(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	lists := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lists-secrets"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}}
	if err := errors.Join(w.admin.Create(t.Context(), lists),
		w.bind(t.Context(), own, lists.Name, rbacv1.UserKind, "tenant-of-copies"),
		w.bind(t.Context(), own, lists.Name, rbacv1.UserKind, "chooser"),
		w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "tenant-of-copies"),
		w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "chooser"),
		w.bind(t.Context(), own, "bourse-reflect", rbacv1.UserKind, "chooser"),
		w.bind(t.Context(), mapped, "bourse-reflect", rbacv1.UserKind, "tenant-of-copies")); err != nil {
		t.Fatal(err)
	}
	by := func(name string) kube.Client {
		return w.mustAs(t, account{name, rest.ImpersonationConfig{UserName: name}})
	}
	request := func(r *api.Reflect) *api.ResourceRequest {
		o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "copies"}}
		o.Spec.Resources = api.Resources{"cpu": resource.MustParse("1m")}
		o.Spec.Offload = &api.Offload{Namespaces: []string{own}, Reflect: r}
		return o
	}
	tenants, chooser := by("tenant-of-copies"), by("chooser")
	less := &api.Reflect{ConfigMaps: api.ReflectNone}
	w.eventually(t, "the policy is in force", func() error {
		if err := tenants.Create(t.Context(), request(less), kube.DryRunAll); !isRefusal(err, "bourse-reflect") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	policies := []api.ReflectPolicy{api.ReflectAll, api.ReflectAllowList, api.ReflectNone}
	for _, p := range policies {
		for _, c := range []struct {
			is    api.Reflect
			usual bool
		}{
			{api.Reflect{Secrets: p}, p == api.ReflectAllowList},
			{api.Reflect{ConfigMaps: p}, p == api.ReflectAll},
			{api.Reflect{Services: p}, p == api.ReflectAll},
		} {
			err := tenants.Create(t.Context(), request(&c.is), kube.DryRunAll)
			if c.usual && err != nil || !c.usual && !isRefusal(err, "right to reflect resourcerequests in namespace "+own) {
				t.Errorf("a tenant asks for %+v: %v", c.is, err)
			}
			if err := chooser.Create(t.Context(), request(&c.is), kube.DryRunAll); err != nil {
				t.Errorf("who has the right asks for %+v: %v", c.is, err)
			}
		}
	}
	made := request(less)
	if err := chooser.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.admin.Delete(t.Context(), made) }()
	larger := made.DeepCopy()
	larger.Spec.Resources["cpu"] = resource.MustParse("2m")
	if err := tenants.Patch(t.Context(), larger, kube.MergeFrom(made), kube.DryRunAll); err != nil {
		t.Errorf("another resizes it: %v", err)
	}
}

// applyRequests makes the kind ResourceRequest known, and the roles of its users.
func (w *world) applyRequests(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"crd", "rbac"} {
		if err := w.cluster.ApplyFS(t.Context(), os.DirFS(filepath.Join("..", "..", "config", dir))); err != nil {
			t.Fatal(err)
		}
	}
}
