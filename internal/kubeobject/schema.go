package kubeobject

import (
	"encoding/json"

	"k8s.io/client-go/openapi"
)

// Schema is a part of an OpenAPI document, or of a CustomResourceDefinition: which fields a value has.
type Schema struct {
	Properties map[string]*Schema `json:"properties"`
	Items      *Schema            `json:"items"`
	Values     *MapValues         `json:"additionalProperties"`
	Open       bool               `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds      []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// MapValues is the schema of a map's values. OpenAPI also allows true and false there, which name no fields.
type MapValues struct{ Schema }

// UnmarshalJSON implements json.Unmarshaler.
func (m *MapValues) UnmarshalJSON(text []byte) error {
	if string(text) == "true" || string(text) == "false" {
		return nil
	}
	return json.Unmarshal(text, &m.Schema)
}

// ReadSchemas returns the schemas of a group's version by kind; none for nil, which is a version that the API server does
// not serve. Errors: those of the API server.
func ReadSchemas(served openapi.GroupVersion) (map[string]*Schema, error) {
	if served == nil {
		return nil, nil
	}
	text, err := served.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]*Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	kinds := map[string]*Schema{}
	for _, s := range document.Components.Schemas {
		if len(s.Kinds) == 1 { // Kubernetes' own schemas, such as DeleteOptions, are of several kinds
			kinds[s.Kinds[0].Kind] = s
		}
	}
	return kinds, nil
}
