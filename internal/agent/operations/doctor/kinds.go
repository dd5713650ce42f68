package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Kinds looks whether the API server serves each kind of Bourse with all fields that this agent knows. A field that it
// does not serve it drops, without an error.
type Kinds struct {
	// OpenAPI has the documents that every authenticated client may read.
	OpenAPI openapi.Client
}

// Find implements Check.Find.
func (k Kinds) Find(context.Context) ([]api.Problem, error) {
	paths, err := k.OpenAPI.Paths()
	if err != nil {
		return nil, err
	}
	document := paths["apis/"+api.GroupVersion.String()]
	if document == nil {
		return nil, nil // the agent does not start without its kinds
	}
	served, err := kubeobject.ReadSchemas(document)
	if err != nil {
		return nil, fmt.Errorf("the schemas of Bourse's kinds cannot be read: %w", err)
	}
	var missing []string
	for _, kind := range slices.Sorted(maps.Keys(ourKinds())) {
		if path := missingIn(ourKinds()[kind], served[kind]); path != "" {
			missing = append(missing, strings.TrimSuffix(kind+path, "."))
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return []api.Problem{health.CRDsOlder.Of("", "helm upgrade bourse-base charts/bourse-base --reset-then-reuse-values, or "+
		"kubectl apply -k config/crd", "the API server does not serve %s", strings.Join(missing, ", "))}, nil
}

// missingIn returns the path of a field of a schema that another one lacks, such as ".spec.offload", or nothing.
func missingIn(s, other *kubeobject.Schema) string {
	if other == nil {
		return "."
	}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		if path := missingIn(s.Properties[field], other.Properties[field]); path != "" {
			return "." + field + path
		}
	}
	if s.Items != nil {
		return missingIn(s.Items, other.Items)
	}
	if s.Values == nil {
		return ""
	}
	if other.Values == nil {
		return "."
	}
	return missingIn(&s.Values.Schema, &other.Values.Schema)
}

// ourKinds are the spec and the status of each kind that this program has.
var ourKinds = sync.OnceValue(func() map[string]*kubeobject.Schema {
	out := map[string]*kubeobject.Schema{}
	files, _ := fs.Glob(config.Kinds, "crd/*.yaml") // the pattern is well formed
	for _, file := range files {
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema *kubeobject.Schema `json:"openAPIV3Schema"`
					}
				}
			}
		}
		text, err := config.Kinds.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &crd)
		}
		if err != nil {
			panic(err) // they are embedded
		}
		all := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		maps.DeleteFunc(all.Properties, func(field string, _ *kubeobject.Schema) bool { return field != "spec" && field != "status" })
		out[crd.Spec.Names.Kind] = all
	}
	return out
})
