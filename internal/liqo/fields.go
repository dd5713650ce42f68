package liqo

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/client-go/openapi"
)

// fields are the fields of Liqo's kinds that Bourse reads or writes, one a line: apiVersion, kind, path (none where
// only the kind is used). The list has each field that internal/liqo and the packages below it name.
// TestLiqosFieldsAreThoseUsed in test/arch writes it.
//
//go:embed fields.txt
var fields string

// MissingField returns a field that Bourse uses and that a cluster's CRDs lack, such as "ResourceSlice.spec.class
// (authentication.liqo.io/v1beta1)", or a kind of that form; empty if they lack none. served is the API server's
// OpenAPI, which every authenticated client may read. Errors: those of the API server.
func MissingField(served openapi.Client) (string, error) {
	paths, err := served.Paths()
	if err != nil {
		return "", fmt.Errorf("the schemas of Liqo's kinds cannot be read: %w", err)
	}
	byVersion := map[string]map[string]*fieldSchema{}
	for line := range strings.Lines(fields) {
		version, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, path, _ := strings.Cut(rest, " ")
		kinds, known := byVersion[version]
		if !known {
			if kinds, err = readKinds(paths["apis/"+version]); err != nil {
				return "", fmt.Errorf("the schemas of %s cannot be read: %w", version, err)
			}
			byVersion[version] = kinds
		}
		schema := kinds[kind]
		if schema == nil {
			return fmt.Sprintf("%s (%s)", kind, version), nil
		}
		if path != "" && !schema.has(strings.Split(path, ".")) {
			return fmt.Sprintf("%s.%s (%s)", kind, path, version), nil
		}
	}
	return "", nil
}

// fieldSchema is a part of an OpenAPI document: which fields a value has.
type fieldSchema struct {
	Properties map[string]*fieldSchema `json:"properties"`
	Items      *fieldSchema            `json:"items"`
	Values     *mapValues              `json:"additionalProperties"`
	Open       bool                    `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds      []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// mapValues is the schema of a map's values. OpenAPI also allows true and false there, which name no fields.
type mapValues struct{ fieldSchema }

func (m *mapValues) UnmarshalJSON(text []byte) error {
	if string(text) == "true" || string(text) == "false" {
		return nil
	}
	return json.Unmarshal(text, &m.fieldSchema)
}

// readKinds returns the schemas of a group's version by kind; none where the API server does not serve it.
func readKinds(served openapi.GroupVersion) (map[string]*fieldSchema, error) {
	if served == nil {
		return nil, nil
	}
	text, err := served.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]*fieldSchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	kinds := map[string]*fieldSchema{}
	for _, s := range document.Components.Schemas {
		if len(s.Kinds) == 1 { // Kubernetes' own schemas, such as DeleteOptions, are of several kinds
			kinds[s.Kinds[0].Kind] = s
		}
	}
	return kinds, nil
}

// has reports whether a value may have a field. A list and a map have the fields of what they hold.
func (s *fieldSchema) has(path []string) bool {
	switch {
	case s == nil:
		return false
	case len(path) == 0 || s.Open:
		return true
	case s.Items != nil:
		return s.Items.has(path)
	case s.Values != nil:
		return s.Values.has(path)
	}
	return s.Properties[path[0]].has(path[1:])
}
