package policies

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/trust"
)

// anyTexts are values that a field can hold, also by mistake.
var anyTexts = []string{"gold\n", strings.Repeat("x", 400), "\u202eevil", "\x00", "no\tway", "ä 語", "a/b c", "", "plain"}

// ofABroker is what a broker does with an object of each kind that an admin or a user writes, and where only a
// broker, or the agent, can tell: it compiles expressions, and maps of amounts have no rule for their names.
var ofABroker = map[string]struct {
	change func(spec map[string]any)
	takes  func(t *testing.T, spec map[string]any) error
	beside []string
}{
	"sharingpolicy": {
		takes: func(t *testing.T, spec map[string]any) error {
			var s api.Sharing
			read(t, spec, &s)
			return sharing.Check(&s)
		},
		beside: []string{"allow", "maxPerReservation name", "maxPerConsumer name", "pools.caps name", "pools.headroom name",
			"pools.plainConsumers.max name"},
	},
	"offer": {
		takes: func(t *testing.T, spec map[string]any) error {
			signed := api.SignedOffer{Protocol: api.Protocol, Seller: "milan", Name: "training", Version: 1}
			read(t, spec, &signed.Offer)
			seller, err := clusterkey.New(rand.Reader)
			if err != nil {
				return err
			}
			document, err := seller.Sign(api.DocumentOffer, signed)
			if err != nil {
				return err
			}
			_, err = trust.Offer(document, seller.Public())
			return err
		},
		beside: []string{"accept", "plans.resources name"},
	},
	"resourcerequest": {
		change: func(spec map[string]any) {
			maps.Copy(spec, map[string]any{"pool": "general", "stickTo": []any{"milan"}, "relendKey": "key", "broker": "main"})
		},
		takes: func(t *testing.T, spec map[string]any) error {
			var s api.ResourceRequestSpec
			read(t, spec, &s)
			if _, err := match.New().Ask("rome", s.Request); err != nil || s.Broker == "" {
				return err
			}
			return market.ValidCluster("broker", s.Broker)
		},
		beside: []string{"where", "resources name", "podShape name"},
	},
	"virtualnodepool": {
		change: func(spec map[string]any) { spec["providers"].(map[string]any)["only"] = []any{"milan"} },
		takes: func(t *testing.T, spec map[string]any) error {
			var s api.VirtualNodePoolSpec
			read(t, spec, &s)
			asks := api.Request{Resources: s.Max, Where: s.Template.Where, Strategy: s.Template.Strategy,
				Network: s.Template.Network, MaxPrice: s.MaxPrice, StickTo: s.Providers.Only, Exclude: s.Providers.Exclude}
			if _, err := match.New().Ask("rome", asks); err != nil || s.Template.Broker == "" {
				return err
			}
			return market.ValidCluster("template.broker", s.Template.Broker)
		},
		beside: []string{"template.where", "max name"},
	},
}

// A text that an API server lets into an object is one that a broker takes.
func TestABrokerTakesWhatAnObjectMaySay(t *testing.T) {
	w := start(t)
	w.ourKinds(t)
	for kind, of := range ofABroker {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "objects", kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		whole := func() *unstructured.Unstructured {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &o.Object); err != nil {
				t.Fatal(err)
			}
			if of.change != nil {
				of.change(o.Object["spec"].(map[string]any))
			}
			if o.GetNamespace() != "" {
				o.SetNamespace(own)
			}
			return o
		}
		spec := func(o *unstructured.Unstructured) map[string]any { return o.Object["spec"].(map[string]any) }
		w.eventually(t, kind+" as it is", func() error { return w.admin.Create(t.Context(), whole(), kube.DryRunAll) })
		if err := of.takes(t, spec(whole())); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		letIn := map[string]int{}
		for at := range textsIn(spec(whole()), "", "") {
			if slices.Contains(of.beside, at) {
				continue
			}
			for _, bad := range anyTexts {
				o := whole()
				textsIn(spec(o), "", bad)[at]()
				if w.admin.Create(t.Context(), o.DeepCopy(), kube.DryRunAll) != nil {
					continue
				}
				letIn[at]++
				if err := of.takes(t, spec(o)); err != nil {
					t.Errorf("%s %s: %.20q is let in, and a broker says: %v", kind, at, bad, err)
				}
			}
		}
		for _, at := range []string{"labels", "labels name", "properties", "description"} {
			if _, has := spec(whole())[strings.Fields(at)[0]]; has && (letIn[at] == 0 || letIn[at] == len(anyTexts)) {
				t.Errorf("%s %s: %d of %d texts are let in", kind, at, letIn[at], len(anyTexts))
			}
		}
	}
}

// ourKinds applies our CRDs.
func (w *world) ourKinds(t *testing.T) {
	t.Helper()
	if err := w.cluster.ApplyFS(t.Context(), os.DirFS(filepath.Join("..", "..", "config", "crd"))); err != nil {
		t.Fatal(err)
	}
}

// textsIn yields each text in a JSON object, and each name in a map of texts or amounts, with what sets it to another.
func textsIn(object map[string]any, at, to string) map[string]func() {
	out := map[string]func(){}
	for name, value := range object {
		within := strings.TrimPrefix(at+"."+name, ".")
		switch value := value.(type) {
		case string:
			out[within] = func() { object[name] = to }
		case []any:
			for i, item := range value {
				if below, is := item.(map[string]any); is {
					maps.Copy(out, textsIn(below, within, to))
				} else if _, is := item.(string); is {
					out[within] = func() { value[i] = to }
				}
			}
		case map[string]any:
			if !isFree(within) {
				maps.Copy(out, textsIn(value, within, to))
				continue
			}
			for key, old := range value {
				out[within+" name"] = func() { value[to] = old }
				out[within] = func() { value[key] = to }
			}
		}
	}
	return out
}

// isFree reports whether the names in a map are its writer's.
func isFree(at string) bool {
	return slices.Contains([]string{"labels", "visibleTo.labels", "properties", "resources", "podShape", "min", "max",
		"maxPerReservation", "maxPerConsumer", "pools.caps", "pools.headroom", "pools.plainConsumers.max", "pools.nodeSelector",
		"namespaces.quota", "plans.resources"}, at)
}

func read(t *testing.T, from map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from, into); err != nil {
		t.Fatal(fmt.Sprint(from), err)
	}
}
