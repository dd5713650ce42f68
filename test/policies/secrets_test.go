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
	if err := w.cluster.ApplyFS(t.Context(), os.DirFS(filepath.Join("..", "..", "config", "crd"))); err != nil {
		t.Fatal(err)
	}
	for _, o := range []kube.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "requester"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{api.Group}, Resources: []string{"resourcerequests"},
			Verbs: []string{"create", "get", "patch", "update"}}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "secrets"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}},
	} {
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.bind(t.Context(), own, "requester", rbacv1.UserKind, "tenant-of-secrets"),
		w.bind(t.Context(), own, "secrets", rbacv1.UserKind, "tenant-of-secrets"),
		w.bind(t.Context(), mapped, "requester", rbacv1.UserKind, "tenant-of-secrets")); err != nil {
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
