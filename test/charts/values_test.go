package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml/goyaml.v3"
)

// value is one that an admin may set, as values.yaml has it.
type value struct {
	path, byDefault, comment string
}

// valuesOf are the values of a chart, in the order of its values.yaml.
func valuesOf(t *testing.T, chart string) (all []value) {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal(read(t, filepath.Join(chartOf(chart), "values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, n *yaml.Node)
	walk = func(at string, n *yaml.Node) {
		for i := 0; i < len(n.Content); i += 2 {
			key, content := n.Content[i], n.Content[i+1]
			path := at + key.Value
			if content.Kind == yaml.MappingNode && len(content.Content) > 0 && path != "resources" {
				walk(path+".", content)
				continue
			}
			var plain any
			if err := content.Decode(&plain); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(plain)
			if err != nil {
				t.Fatal(err)
			}
			comment := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll("\n"+key.HeadComment, "\n# ", " "), "\n", " "))
			if comment == "" {
				t.Errorf("%s/values.yaml does not say what %s is", chart, path)
			}
			all = append(all, value{path: path, byDefault: string(text), comment: comment})
		}
	}
	walk("", document.Content[0])
	return all
}

// docs/reference/values.md has each value of the charts.
func TestGeneratedValues(t *testing.T) {
	const page = "../../docs/reference/values.md"
	var text bytes.Buffer
	text.WriteString("# Values of the charts\n\n`go test ./test/charts -run TestGeneratedValues -update` writes this page.\n" +
		"[Install](../install.md#values) says when to set them.\n")
	for _, chart := range []string{"bourse-base", "bourse-agent", "bourse-broker"} {
		fmt.Fprintf(&text, "\n## %s\n\n| value | default | meaning |\n|---|---|---|\n", chart)
		for _, v := range valuesOf(t, chart) {
			byDefault := ""
			if v.byDefault != `""` {
				byDefault = "`" + v.byDefault + "`"
			}
			fmt.Fprintf(&text, "| `%s` | %s | %s |\n", v.path, byDefault, v.comment)
		}
	}
	if *update {
		if err := os.WriteFile(page, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(page); err != nil || !bytes.Equal(have, text.Bytes()) {
		t.Errorf("docs/reference/values.md is stale: run make generate and commit (%v)", err)
	}
}

// The schema, which refuses what it does not know, has exactly the values of values.yaml.
func TestSchemaHasEachValue(t *testing.T) {
	type schema struct {
		Description string
		Properties  map[string]json.RawMessage
	}
	for _, chart := range []string{"bourse-base", "bourse-agent", "bourse-broker"} {
		var has []string
		var walk func(at string, text []byte)
		walk = func(at string, text []byte) {
			var s schema
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				var inner schema
				if err := json.Unmarshal(s.Properties[name], &inner); err != nil {
					t.Fatal(err)
				}
				if len(inner.Properties) > 0 {
					walk(at+name+".", s.Properties[name])
				} else if at+name != "global" { // Helm's
					has = append(has, at+name)
					if inner.Description == "" {
						t.Errorf("the schema of %s does not describe %s", chart, at+name)
					}
				}
			}
		}
		walk("", read(t, filepath.Join(chartOf(chart), "values.schema.json")))
		var want []string
		for _, v := range valuesOf(t, chart) {
			want = append(want, v.path)
		}
		slices.Sort(has)
		slices.Sort(want)
		if diff := cmp.Diff(want, has); diff != "" {
			t.Errorf("%s: values.yaml -, schema +\n%s", chart, diff)
		}
	}
}
