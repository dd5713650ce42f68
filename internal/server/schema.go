package server

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
)

// quantity is the schema of a Kubernetes quantity. It is stricter than Kubernetes.
type quantity string

// Schema implements huma.SchemaProvider.
func (quantity) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Quantity", &huma.Schema{
		Examples:           []any{"500m", "8Gi"},
		Pattern:            api.QuantityPattern,
		PatternDescription: `a quantity such as "500m" or "8Gi"`,
	})
}

// duration is the schema of a duration.
type duration string

// Schema implements huma.SchemaProvider.
func (duration) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Duration", &huma.Schema{
		Examples:           []any{"1h30m"},
		Pattern:            `^[+-]?(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`,
		PatternDescription: `a duration such as "8h" or "1h30m"`,
	})
}

// sharingSpec is the spec of a SharingPolicy. Its schema is that of the kind.
type sharingSpec struct{ api.Sharing }

// Schema implements huma.SchemaProvider.
func (sharingSpec) Schema(r huma.Registry) *huma.Schema {
	r.Map()["SharingSpec"] = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
		Description: "the spec of a SharingPolicy, as its CustomResourceDefinition describes it"}
	return &huma.Schema{Ref: "#/components/schemas/SharingSpec"}
}

// shared puts the schema of a text of at most [api.QuantityLength] characters into the document once, and refers to it.
func shared(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	longest := api.QuantityLength
	s.Type, s.MaxLength = huma.TypeString, &longest
	s.PrecomputeMessages()
	s.Description, s.PatternDescription = s.PatternDescription, "" // the latter is no keyword of JSON Schema
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}
