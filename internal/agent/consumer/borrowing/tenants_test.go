package borrowing

import (
	"slices"
	"strings"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

var (
	allSecrets = api.Reflect{Secrets: api.ReflectAll}
	noServices = api.Reflect{Services: api.ReflectNone}
)

// The first tenant at a provider has all its Secrets copied there. No Secret of a later one that did not ask for it
// is: its namespace stays, and its condition says why and what to do.
func TestAStricterRequestAtALaxerNode(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{Reflect: &allSecrets})
	w.serve()
	if got := w.offloaded(); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("offloaded are %v", got)
	}
	w.shows("a", api.ConditionReflected, metav1.ConditionTrue, "Reflected", "Secrets: All")
	w.borrows("bank", &api.Offload{})
	waits := w.serve()
	if got := w.offloaded(); slices.Contains(got, "bank") {
		t.Errorf("offloaded are %v: all Secrets of bank are copied", got)
	}
	w.shows("bank", api.ConditionOffloaded, metav1.ConditionFalse, "ReflectsMore",
		"Secrets: All", "namespace bank", "exclude milan")
	if !strings.Contains(waits, "bank") {
		t.Errorf("it waits for %q", waits)
	}
	w.shows("a", api.ConditionOffloaded, metav1.ConditionTrue, "Offloaded")

	// A new request of bank is not placed there at all. Another that allows as much is.
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "next"},
		Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{"bank"}}}}
	card := &api.Card{Cluster: "milan"}
	if err := w.CheckNamespaces(t.Context(), request, card); api.CodeOf(err) != api.CodeInUse {
		t.Errorf("milan is checked: %v, want %s", err, api.CodeInUse)
	}
	request.Spec.Offload.Reflect = &allSecrets
	if err := w.CheckNamespaces(t.Context(), request, card); err != nil {
		t.Error(err)
	}
}

// A laxer request is served by the virtual node as it is, and is told.
func TestALaxerRequestAtAStricterNode(t *testing.T) {
	w := newTenants(t)
	w.borrows("bank", &api.Offload{Reflect: &noServices})
	w.serve()
	w.borrows("a", &api.Offload{Reflect: &allSecrets})
	w.serve()
	if got := w.offloaded(); !slices.Equal(got, []string{"a", "bank"}) {
		t.Errorf("offloaded are %v", got)
	}
	w.shows("bank", api.ConditionReflected, metav1.ConditionTrue, "Reflected", "Secrets: AllowList", "Services: None")
	w.shows("a", api.ConditionReflected, metav1.ConditionTrue, "Reflected",
		"milan gets Secrets: AllowList, ConfigMaps: All, Services: None", "the request allows Secrets: All")
	r, err := w.namespaces.Reflection(t.Context(), w, "milan")
	if want := (api.Reflect{Secrets: api.ReflectAllowList, ConfigMaps: api.ReflectAll,
		Services: api.ReflectNone}); err != nil || r.Reflect != want {
		t.Errorf("milan gets %+v, %v", r.Reflect, err)
	}
}

// A VirtualNodePool does not take a provider to which less is copied than its pods need: they would not start there.
func TestAPoolAtAStricterNode(t *testing.T) {
	for what, c := range map[string]struct {
		reflect *api.Reflect
		want    api.Code
	}{"stricter": {&noServices, api.CodeInUse}, "the same": {nil, ""}} {
		w := newTenants(t)
		w.borrows("bank", &api.Offload{Reflect: c.reflect})
		w.serve()
		w.create(&api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "burst"},
			Spec: api.VirtualNodePoolSpec{Namespaces: []string{"team"}}})
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "burst-milan",
			Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}}}
		if err := w.CheckNamespaces(t.Context(), request, &api.Card{Cluster: "milan"}); c.want == "" && err != nil ||
			c.want != "" && api.CodeOf(err) != c.want {
			t.Errorf("%s: milan is checked: %v, want %q", what, err, c.want)
		}
	}
}

// What counts is what the virtual kubelets run with, also of a virtual node that others made: one of them copies
// for all namespaces at the provider.
func TestAVirtualNodeThatOthersMade(t *testing.T) {
	for what, c := range map[string]struct {
		args []string
		want []string
	}{
		"with Liqo's defaults": {nil, nil},
		"strict": {[]string{"--secret-reflection-workers=1",
			"--secret-reflection-type=AllowList"}, []string{"bank"}},
		"without any Secret": {[]string{"--secret-reflection-workers=0",
			"--secret-reflection-type=DenyList"}, []string{"bank"}},
		"strict, then lax": {[]string{"--secret-reflection-type=AllowList",
			"--secret-reflection-type=DenyList"}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			w := newTenants(t)
			w.byHand(c.args...)
			w.borrows("bank", &api.Offload{})
			w.serve()
			if got := w.offloaded(); !slices.Equal(got, c.want) {
				t.Errorf("offloaded are %v, want %v", got, c.want)
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		w := newTenants(t)
		w.borrows("bank", &api.Offload{})
		w.serve()
		w.byHand()
		w.state("milan").checked = map[string]time.Time{}
		w.serve()
		if got := w.offloaded(); !slices.Equal(got, []string{"bank"}) {
			t.Errorf("offloaded are %v: what is mapped stays, with its volumes", got)
		}
		w.shows("bank", api.ConditionReflected, metav1.ConditionFalse, "ReflectsMore", "Secrets: All", "by-hand")
	})
}

// No request consents for a namespace of others. Its own label does, and its own request.
func TestConsentIsTheNamespacesOwn(t *testing.T) {
	w := newTenants(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}})
	everywhere := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "legacy", Name: "offloading"}}
	w.create(everywhere)
	w.borrows("a", &api.Offload{Others: true, Reflect: &allSecrets})
	waits := w.serve()
	if nodes, _, err := w.namespaces.Nodes(t.Context(), "milan"); err != nil || len(nodes) > 0 {
		t.Fatalf("the virtual nodes %v would take legacy in, %v", nodes, err)
	}
	const label = "kubectl label namespace legacy bourse.dev/offload-to-any=true"
	if !strings.Contains(waits, label) {
		t.Errorf("it waits for %q, want %q", waits, label)
	}
	w.shows("a", api.ConditionOffloaded, metav1.ConditionFalse, "WouldOffloadOthers", "legacy")
	var legacy corev1.Namespace
	w.get("", "legacy", &legacy)
	legacy.Labels = map[string]string{api.OffloadToAnyLabel: "true"}
	if err := w.Update(t.Context(), &legacy); err != nil {
		t.Fatal(err)
	}
	w.serve()
	if got := w.offloaded(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("offloaded are %v", got)
	}

	// A virtual node that is there takes in nobody new: what selects it later has its own owner's word.
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	late := everywhere.DeepCopy()
	late.ObjectMeta = metav1.ObjectMeta{Namespace: "late", Name: "offloading"}
	w.create(late)
	if waits := w.serve(); strings.Contains(waits, "WouldOffloadOthers") {
		t.Errorf("it waits for %q, though the virtual node is Ready", waits)
	}
	w.shows("a", api.ConditionOffloaded, metav1.ConditionTrue, "Offloaded")
}

// Of several requests for one namespace the strategy counts that keeps more pods at home, in whatever order they
// came, and none changes one that is in force.
func TestStrategyThatRequestsShare(t *testing.T) {
	w := newTenants(t)
	w.create(&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "first"},
		Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{"a"}}}})
	w.borrows("a", &api.Offload{Strategy: api.OffloadRemote})
	w.serve()
	var o offv1beta1.NamespaceOffloading
	w.get("a", "offloading", &o)
	if o.Spec.PodOffloadingStrategy != offv1beta1.LocalAndRemotePodOffloadingStrategyType {
		t.Errorf("the strategy is %s", o.Spec.PodOffloadingStrategy)
	}
	w.shows("a", api.ConditionOffloaded, metav1.ConditionTrue, "Offloaded", "LocalAndRemote, not Remote")
}

// The VkOptionsTemplates that a virtual node uses are never changed: another wish is another template.
func TestOptionsAreNeverChanged(t *testing.T) {
	w := newTenants(t)
	w.borrows("a", &api.Offload{Reflect: &allSecrets})
	w.serve()
	var was, is offv1beta1.VkOptionsTemplateList
	if err := w.List(t.Context(), &was); err != nil {
		t.Fatal(err)
	}
	var from offv1beta1.VkOptionsTemplate
	w.get("liqo", "virtual-kubelet-default", &from)
	from.Spec.ContainerImage = "next"
	if err := w.Update(t.Context(), &from); err != nil {
		t.Fatal(err)
	}
	slice := market.SliceName("rome", "milan", "gpu")
	if _, err := w.options.Slices.Ensure(t.Context(), "milan", slice, nil, offload.Node{Reflect: allSecrets}); err != nil {
		t.Fatal(err)
	}
	if err := w.List(t.Context(), &is); err != nil {
		t.Fatal(err)
	}
	if len(is.Items) != len(was.Items)+1 {
		t.Errorf("there were %d templates, and are %d", len(was.Items), len(is.Items))
	}
	for _, before := range was.Items {
		var after offv1beta1.VkOptionsTemplate
		w.get("liqo", before.Name, &after)
		if before.Name != from.Name && after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was changed", before.Name)
		}
	}
}
