package charts

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// The chart's policies are those with which the agent of the same namespace compares what is in force, and nothing
// else in the chart is of a namespace.
func TestPoliciesAreTheAgents(t *testing.T) {
	for namespace, account := range map[string]string{"bourse": "bourse-agent", "platform-x": "lender"} {
		specs := func(text string) map[string]any {
			all := map[string]any{}
			for _, o := range decoded(t, text) {
				if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
					all[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
				}
			}
			return all
		}
		text := rendered(t, "bourse-base", "--set=agent.namespace="+namespace+",agent.serviceAccount="+account)
		have, want := specs(text), specs(string(posture.Render(namespace, account)))
		maps.Copy(want, specs(string(posture.RenderFor(read(t, filepath.Join(configDir, "rbac/policies.yaml")), namespace, account))))
		if diff := cmp.Diff(want, have); diff != "" || len(want) < 30 {
			t.Errorf("for an agent in namespace %s (%d policies and bindings): agent -, chart +\n%s", namespace, len(want), diff)
		}
		if strings.Contains(text, namespaceInFiles) || strings.Contains(text, accountInFiles) {
			t.Error("the namespace and the account are not put in everywhere")
		}
	}
	for _, left := range regexp.MustCompile(`.*(namespace: bourse\b|name: bourse}|namespace\('bourse'\)|serviceaccount:bourse:).*`).FindAllString(
		rendered(t, "bourse-base", "--set=agent.namespace=platform-x"), -1) {
		t.Errorf("it names the usual namespace: %s", left)
	}
}

// Everything of the base chart stays when its release ends.
func TestBaseStays(t *testing.T) {
	for _, o := range decoded(t, rendered(t, "bourse-base")) {
		notes := o.GetAnnotations()
		if notes["helm.sh/resource-policy"] != "keep" || notes["argocd.argoproj.io/sync-options"] != "Prune=false,Delete=false" {
			t.Errorf("%s %s has annotations %v", o.GetKind(), o.GetName(), notes)
		}
	}
}

// What is rendered is what is installed: no template asks the cluster, no hook runs, and no object is too large for a
// client that stores it once more in an annotation. There is one image, which the admin names.
func TestChartsAreSimple(t *testing.T) {
	err := filepath.WalkDir(chartsDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/templates/") {
			return err
		}
		for _, word := range []string{"lookup", ".Capabilities", "helm.sh/hook", ".Release.IsInstall", "IsUpgrade"} {
			if bytes.Contains(read(t, path), []byte(word)) {
				t.Errorf("%s has %s", path, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hub := "-f" + filepath.Join(chartsDir, "bourse-agent/values-hub.yaml")
	for _, command := range [][]string{{"bourse-base"}, {"bourse-agent", image}, {"bourse-agent", image, hub, "--set=" + everyMore},
		{"bourse-broker", image, "--set=broker.host=b"}, {"bourse-broker", image, "--set=" + everyMoreOfBroker}} {
		chart := command[0]
		for _, o := range decoded(t, rendered(t, chart, command[1:]...)) {
			text, err := json.Marshal(o)
			if err != nil || len(text) > 200_000 {
				t.Errorf("%s %s has %d bytes, %v", o.GetKind(), o.GetName(), len(text), err)
			}
			for _, field := range regexp.MustCompile(`"image":"[^"]*"`).FindAllString(string(text), -1) {
				if chart == "bourse-base" || field != `"image":"registry.example/bourse:v1"` {
					t.Errorf("%s runs %s", o.GetName(), field)
				}
			}
			if o.GetAnnotations()["helm.sh/hook"] != "" {
				t.Errorf("%s %s is a hook", o.GetKind(), o.GetName())
			}
			switch o.GetKind() {
			case "Job", "CronJob", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
				t.Errorf("chart %s has a %s", chart, o.GetKind())
			}
		}
	}
}

// A value that is missing or wrong is a sentence with the remedy.
func TestWrongValuesSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		says, chart string
		args        []string
	}{
		{"image.repository is empty, and no image of Bourse is published: build one, push it to your registry", "bourse-agent", nil},
		{"image.repository is empty, and no image of Bourse is published: build one, push it to your registry", "bourse-broker",
			[]string{"--set=broker.host=b"}},
		{"image.digest and image.tag are empty: say which image of registry.example/bourse to run", "bourse-agent",
			[]string{"--set=image.repository=registry.example/bourse"}},
		{"broker.host is empty: add --set broker.host=NAME, the name or address by which members reach the broker", "bourse-broker",
			[]string{image}},
		{"broker.port is 7443, and nodes have no such port: with service.type=NodePort add --set broker.port=30743", "bourse-broker",
			[]string{image, "--set=broker.host=b,service.type=NodePort"}},
		{"connector.url is empty: add --set connector.url=https://HOST:PORT", "bourse-agent", []string{image, "--set=connector.enabled=true"}},
		{"connector.port is 7444, and nodes have no such port: with connector.service.type=NodePort add --set connector.port=30744",
			"bourse-agent", []string{image, "--set=connector.enabled=true,connector.url=https://c:1,connector.service.type=NodePort"}},
		{"join.certificateSecret and join.kubeconfigSecret are both set", "bourse-agent",
			[]string{image, "--set=join.certificateSecret=a,join.kubeconfigSecret=b"}},
		{"join.brokerURL is empty: with join.certificateSecret add --set join.brokerURL=https://HOST:PORT", "bourse-agent",
			[]string{image, "--set=join.certificateSecret=a"}},
		{"certificate.existingSecret is empty: name the Secret that the issuer fills", "bourse-broker",
			[]string{image, "--set=broker.host=b,certificate.issuer=ca"}},
		{"'/broker/interface': value must be one of '', 'http', 'kubernetes', 'both'", "bourse-broker",
			[]string{image, "--set=broker.host=b,broker.interface=grpc"}},
		{"'/agent/serviceAccount'", "bourse-base", []string{"--set=agent.serviceAccount=An_account"}},
		{"'/extraEnv/0': missing property 'name'", "bourse-agent", []string{image, "--set=extraEnv[0].value=x"}},
		{"additional properties 'clusterId' not allowed", "bourse-agent", []string{image, "--set=clusterId=rome"}},
		{"'/agent/namespace'", "bourse-base", []string{"--set=agent.namespace=Not_a_namespace"}},
	} {
		out, err := helm(t, "", append([]string{"template", "any", chartOf(c.chart), "--kube-version=1.30.0"}, c.args...)...)
		if err == nil || !strings.Contains(out, c.says) {
			t.Errorf("%s %q: %v\n%s", c.chart, c.args, err, out)
		}
	}
}

// A template reads each value through a default: helm upgrade --reuse-values has none of those that are new.
func TestTemplatesNeedNoValues(t *testing.T) {
	for chart, few := range map[string]map[string]any{
		"bourse-base":   {},
		"bourse-agent":  {"image": map[string]any{"repository": "registry.example/bourse", "tag": "v1"}},
		"bourse-broker": {"image": map[string]any{"repository": "registry.example/bourse", "tag": "v1"}, "broker": map[string]any{"host": "b"}},
	} {
		folder := filepath.Join(t.TempDir(), chart)
		if err := os.CopyFS(folder, os.DirFS(chartOf(chart))); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(few)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "values.yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := helm(t, "", "template", "any-name", folder, "--kube-version=1.30.0")
		if err != nil {
			t.Errorf("%s without its values: %s", chart, out)
			continue
		}
		flags := []string{}
		if chart != "bourse-base" {
			flags = append(flags, image)
		}
		if chart == "bourse-broker" {
			flags = append(flags, "--set=broker.host=b")
		}
		bare := decoded(t, out)
		for i, want := range decoded(t, rendered(t, chart, flags...)) {
			have := bare[i]
			unstructured.RemoveNestedField(want.Object, "spec", "template", "spec") // requests and users have defaults in values only
			unstructured.RemoveNestedField(have.Object, "spec", "template", "spec")
			if diff := cmp.Diff(want.Object, have.Object); diff != "" {
				t.Errorf("%s: with its values -, without +\n%s", chart, diff)
			}
		}
	}
}
