package charts

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

var update = flag.Bool("update", false, "write what is generated")

const (
	configDir = "../../config"
	chartsDir = "../../charts"

	// These stand for the agent's namespace and account in the policies' template, and for the broker's namespace.
	namespaceInFiles, accountInFiles, brokerInFiles = "AGENT-NAMESPACE", "AGENT-ACCOUNT", "BROKER-NAMESPACE"
	account                                         = "bourse-agent"
	// keep holds an object when its release ends, and when a later release has it no more.
	keep = `helm.sh/resource-policy: keep`
	// kept is the same to Argo CD, which else prunes it.
	kept = `argocd.argoproj.io/sync-options: "Prune=false,Delete=false"`
)

// The files of the charts that config has, too, are those of config: kinds, policies, roles. What the base chart puts
// into a cluster stays there.
func TestGeneratedFiles(t *testing.T) {
	generated := map[string][]byte{}
	kinds, err := filepath.Glob(filepath.Join(configDir, "crd", "bourse.dev_*.yaml"))
	if err != nil || len(kinds) < 10 {
		t.Fatal(kinds, err)
	}
	for _, path := range kinds {
		generated["bourse-base/files/crd/"+filepath.Base(path)] = bytes.Replace(read(t, path),
			[]byte("\n  annotations:\n"), []byte("\n  annotations:\n    "+kept+"\n    "+keep+"\n"), 1)
	}
	var policies []byte
	for _, file := range []string{"rbac/policies.yaml", "liqo/policies.yaml"} {
		policies = append(policies, withoutComments(read(t, filepath.Join(configDir, file)))...)
		policies = append(policies, "---\n"...)
	}
	policies = bytes.TrimSuffix(policies, []byte("---\n"))
	generated["bourse-base/files/policies.yaml"] = staying(posture.RenderFor(policies, namespaceInFiles, accountInFiles))

	var people, own [][]byte
	for _, document := range bytes.SplitAfter(read(t, filepath.Join(configDir, "rbac/people.yaml")), []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: ClusterRole\n")) {
			people = append(people, document)
		} else {
			own = append(own, document) // in the agent's namespace, which is there when the agent is
		}
	}
	generated["bourse-base/files/people.yaml"] = staying(withoutComments(bytes.TrimSuffix(bytes.Join(people, nil), []byte("---\n"))))
	generated["bourse-agent/files/people.yaml"] = withoutComments(bytes.Join(own, nil))
	generated["bourse-agent/files/rights.yaml"] = withoutComments(read(t, filepath.Join(configDir, "rbac/agent.yaml")))
	for _, side := range []string{"peerings", "consumer", "provider"} {
		generated["bourse-agent/files/liqo-"+side+".yaml"] = withoutComments(read(t, filepath.Join(configDir, "liqo", side+".yaml")))
	}

	generated["bourse-agent/files/distributed-catalog.yaml"] = withoutComments(read(t, filepath.Join(configDir, "distributed-catalog/rights.yaml")))
	generated["bourse-broker/files/catalog.yaml"] = ofBroker(read(t, filepath.Join(configDir, "catalog/rights.yaml")))
	var objects [][]byte
	for _, file := range []string{"crd", "members", "policy", "rights"} {
		objects = append(objects, ofBroker(read(t, filepath.Join(configDir, "kubernetes", file+".yaml"))))
	}
	generated["bourse-broker/files/kubernetes.yaml"] = bytes.Join(objects, []byte("---\n"))

	for name, want := range generated {
		golden(t, name, want)
	}
	for _, chart := range []string{"bourse-base", "bourse-agent", "bourse-broker"} { // what config no longer has
		_ = filepath.WalkDir(filepath.Join(chartsDir, chart, "files"), func(path string, d os.DirEntry, err error) error {
			name, _ := filepath.Rel(chartsDir, path)
			if err == nil && !d.IsDir() && generated[filepath.ToSlash(name)] == nil {
				t.Errorf("%s is generated from nothing: remove it (there are %q)", name, slices.Sorted(maps.Keys(generated)))
			}
			return err
		})
	}
}

// The rendered files, which the program and other tests install, are what the charts render.
func TestGeneratedRendered(t *testing.T) {
	for name, of := range map[string]struct{ chart, templates string }{
		"agent-rights": {"bourse-agent", "rights people"},
		"agent-liqo":   {"bourse-agent", "liqo"},
		"agent":        {"bourse-agent", "agent"},
		"broker":       {"bourse-broker", "broker"},
	} {
		args := []string{"--set=image.repository=bourse,image.tag=TAG", "--namespace=bourse"}
		if of.chart == "bourse-broker" {
			args = append(args, "--namespace=bourse-broker", "--set=broker.host=HOST")
		}
		for template := range strings.FieldsSeq(of.templates) {
			args = append(args, "--show-only=templates/"+template+".yaml")
		}
		text := strings.TrimPrefix(string(withoutComments([]byte(rendered(t, of.chart, args...)))), "---\n")
		golden(t, "rendered/"+name+".yaml", []byte(blankLines.ReplaceAllString(text, "")))
	}
}

// golden compares a file of charts with what it should be, or writes it.
func golden(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(chartsDir, name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
		t.Errorf("charts/%s is stale: run make generate and commit (%v)", name, err)
	}
}

var (
	blankLines  = regexp.MustCompile(`(?m)^ *\n`)
	commentLine = regexp.MustCompile(`(?m)^ *#.*\n`)
	flowName    = regexp.MustCompile(`(?m)^metadata: \{name: ([a-z.-]+)\}$`)
)

// withoutComments removes the lines that are comments: a release of Helm is stored in one Secret.
func withoutComments(text []byte) []byte { return commentLine.ReplaceAll(text, nil) }

// staying annotates objects that outlive their release.
func staying(text []byte) []byte {
	const annotations = "  annotations:\n"
	text = bytes.ReplaceAll(text, []byte("\n"+annotations), []byte("\n"+annotations+"    "+kept+"\n    "+keep+"\n"))
	return flowName.ReplaceAll(text, []byte("metadata:\n  name: $1\n"+annotations+"    "+kept+"\n    "+keep))
}

// ofBroker is what a chart has of a manifest of the broker: without its ServiceAccount, which the chart makes, and with a
// word for its namespace. Kinds outlive their release, since members' objects are of them.
func ofBroker(text []byte) []byte {
	var kept [][]byte
	for document := range bytes.SplitSeq(withoutComments(text), []byte("\n---\n")) {
		if bytes.Contains(document, []byte("kind: CustomResourceDefinition\n")) {
			document = staying(document)
		}
		if !bytes.Contains(document, []byte("kind: ServiceAccount\n")) {
			kept = append(kept, bytes.TrimSpace(document))
		}
	}
	return append([]byte(strings.NewReplacer("namespace: bourse-broker}", "namespace: "+brokerInFiles+"}",
		"system:serviceaccount:bourse-broker:", "system:serviceaccount:"+brokerInFiles+":").
		Replace(string(bytes.Join(kept, []byte("\n---\n"))))), '\n')
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(text), "\r\n", "\n"))
}
