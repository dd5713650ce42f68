package server

import (
	"github.com/danielgtaylor/huma/v2"
)

// quantity is how a Kubernetes quantity looks in the schema. It is stricter than what Kubernetes reads: an
// exponent of more than two digits says nothing of a cluster, and takes for ever to reckon with.
type quantity string

// Schema implements huma.SchemaProvider.
func (quantity) Schema(huma.Registry) *huma.Schema {
	longest := 32
	return &huma.Schema{
		Type: huma.TypeString, MaxLength: &longest, Examples: []any{"500m", "8Gi"},
		Pattern:            `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`,
		PatternDescription: `a quantity such as "500m" or "8Gi"`,
	}
}

// duration is how a duration looks in the schema.
type duration string

// Schema implements huma.SchemaProvider.
func (duration) Schema(huma.Registry) *huma.Schema {
	longest := 32
	return &huma.Schema{
		Type: huma.TypeString, MaxLength: &longest, Examples: []any{"1h30m"},
		Pattern:            `^[+-]?(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`,
		PatternDescription: `a duration such as "8h" or "1h30m"`,
	}
}
