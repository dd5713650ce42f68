package peering_test

import (
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// tenant is a cluster with the Tenant of rome, as Bourse made it.
type tenant struct {
	*testing.T
	client.Client
	*authv1beta1.Tenant
	provider *peering.Provider
	suspend  bool // an admin has suspended rome
}

// newAPI is an API server that knows Liqo's kinds of a handshake.
func newAPI(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, liqo.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kind := func(kind, resource string) kubeapi.Type {
		return kubeapi.Type{GroupVersion: authv1beta1.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: true, Status: true}
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{kind(authv1beta1.TenantKind, "tenants"),
		kind(authv1beta1.IdentityKind, "identities"), kind(authv1beta1.ResourceSliceKind, "resourceslices")}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newTenant(t *testing.T) *tenant {
	t.Helper()
	c := newAPI(t)
	namespace := liqo.NewTenantNamespace("rome")
	made := peering.NewTenant(namespace.Name, "rome")
	for _, o := range []client.Object{namespace, made} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return &tenant{t, c, made, &peering.Provider{Client: c}, false}
}

// set is what an admin does.
func (t *tenant) set(condition authv1beta1.TenantCondition) {
	t.Helper()
	t.read()
	t.Spec.TenantCondition = condition
	if err := t.Update(t.Context(), t.Tenant); err != nil {
		t.Fatal(err)
	}
}

func (t *tenant) read() {
	t.Helper()
	if err := t.Get(t.Context(), client.ObjectKeyFromObject(t.Tenant), t.Tenant); err != nil {
		t.Fatal(err)
	}
}

// becomes restricts twice: the second time writes nothing.
func (t *tenant) becomes(action api.RevokeAction, want authv1beta1.TenantCondition) {
	t.Helper()
	version := ""
	for range 2 {
		if err := t.provider.Restrict(t.Context(), "rome", action, t.suspend); err != nil {
			t.Fatal(err)
		}
		t.read()
		if condition := t.Spec.TenantCondition; condition != want {
			t.Errorf("by %s it is %s, want %s", action, condition, want)
		}
		if version != "" && version != t.ResourceVersion {
			t.Errorf("%s is written again", action)
		}
		version = t.ResourceVersion
	}
}

// What we did we take back, whichever way the policy went meanwhile.
func TestRestrict(t *testing.T) {
	w := newTenant(t)
	version := w.ResourceVersion
	w.becomes(api.RevokeNone, authv1beta1.TenantConditionActive)
	if w.ResourceVersion != version {
		t.Error("nothing was to be done, and it was written")
	}
	w.becomes(api.RevokeCordon, authv1beta1.TenantConditionCordoned)
	w.becomes(api.RevokeDrain, authv1beta1.TenantConditionDrained)
	w.becomes(api.RevokeCordon, authv1beta1.TenantConditionCordoned)
	w.becomes(api.RevokeNone, authv1beta1.TenantConditionActive)
	if len(w.Annotations) > 0 {
		t.Errorf("it is left with %v", w.Annotations)
	}
}

// A suspension cordons, also if the policy asks for less; what the policy does besides is
// known when it ends.
func TestRestrictOneThatIsSuspended(t *testing.T) {
	const active, cordoned, drained = authv1beta1.TenantConditionActive, authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained
	w := newTenant(t)
	for _, step := range []struct {
		suspend bool
		action  api.RevokeAction
		want    authv1beta1.TenantCondition
	}{
		{true, api.RevokeNone, cordoned}, {false, api.RevokeNone, active},
		{true, peering.AsItIs, cordoned}, {false, peering.AsItIs, active},
		{true, api.RevokeCordon, cordoned}, {false, api.RevokeCordon,
			cordoned}, {true, api.RevokeCordon, cordoned}, {true, api.RevokeNone, cordoned},
		{true, api.RevokeDrain, drained}, {true, peering.AsItIs, drained}, {false,
			peering.AsItIs, drained}, {true, api.RevokeDrain, drained},
		{true, api.RevokeNone, cordoned}, {false, api.RevokeNone, active},
	} {
		w.suspend = step.suspend
		w.becomes(step.action, step.want)
	}
	if len(w.Annotations) > 0 {
		t.Errorf("it is left with %v", w.Annotations)
	}
	w.suspend = true
	w.set(cordoned) // an admin's hand: it is not ours to take back
	w.becomes(api.RevokeNone, cordoned)
	w.suspend = false
	w.becomes(api.RevokeNone, cordoned)
}

// What an admin cordoned or drained, before us or after, stays so.
func TestRestrictAfterAnAdmin(t *testing.T) {
	w := newTenant(t)
	w.set(authv1beta1.TenantConditionCordoned)
	w.becomes(api.RevokeCordon, authv1beta1.TenantConditionCordoned)
	w.becomes(api.RevokeDrain, authv1beta1.TenantConditionCordoned)
	w.becomes(api.RevokeNone, authv1beta1.TenantConditionCordoned)

	w.set(authv1beta1.TenantConditionActive)
	w.becomes(api.RevokeCordon, authv1beta1.TenantConditionCordoned)
	w.set(authv1beta1.TenantConditionDrained)
	w.becomes(api.RevokeCordon, authv1beta1.TenantConditionDrained)
	w.becomes(api.RevokeNone, authv1beta1.TenantConditionDrained)
	w.set(authv1beta1.TenantConditionCordoned) // what we once made it: but this time it was not us
	w.becomes(api.RevokeNone, authv1beta1.TenantConditionCordoned)
}

// A peering made by hand is never written, nor one whose end has begun.
func TestRestrictNotOurs(t *testing.T) {
	for name, change := range map[string]func(*authv1beta1.Tenant){
		"made by hand": func(t *authv1beta1.Tenant) { delete(t.Labels, "app.kubernetes.io/managed-by") },
		"being ended":  func(t *authv1beta1.Tenant) { t.Annotations = map[string]string{"bourse.dev/draining": "true"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenant(t)
			change(w.Tenant)
			if err := w.Update(t.Context(), w.Tenant); err != nil {
				t.Fatal(err)
			}
			w.becomes(api.RevokeDrain, authv1beta1.TenantConditionActive)
		})
	}
	w := newTenant(t)
	if err := w.provider.Restrict(t.Context(), "oslo", api.RevokeDrain, true); err != nil {
		t.Errorf("where there is no Tenant: %v", err)
	}
}
