package kubeapi

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/bourse-dev/bourse/internal/payload"
)

// custom is what a CustomResourceDefinition says of the fields of its type.
type custom struct {
	structural *structuralschema.Structural
	openapi    *spec.Schema
	validator  *validate.SchemaValidator
	shapes     managedfields.TypeConverter
}

// CustomType returns the type that a CustomResourceDefinition of one version, in YAML, describes. Its objects have the
// fields, defaults and columns of the definition. Its rules in CEL are not evaluated.
func CustomType(definition []byte) (Type, error) {
	var d apiextensionsv1.CustomResourceDefinition
	if err := payload.ReadYAML(definition, &d); err != nil {
		return Type{}, err
	}
	version := d.Spec.Versions[0]
	t := Type{GroupVersion: schema.GroupVersion{Group: d.Spec.Group, Version: version.Name}, Kind: d.Spec.Names.Kind,
		Resource: d.Spec.Names.Plural, ShortNames: d.Spec.Names.ShortNames, categories: d.Spec.Names.Categories,
		Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Status:     version.Subresources != nil && version.Subresources.Status != nil,
		columns:    version.AdditionalPrinterColumns}
	err := t.describe(version.Schema.OpenAPIV3Schema)
	return t, err
}

// anyFields is the schema of a type without a definition.
const anyFields = `
type: object
x-kubernetes-preserve-unknown-fields: true
properties:
  status:
    type: object
    x-kubernetes-preserve-unknown-fields: true
    properties:
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items:
          type: object
          x-kubernetes-preserve-unknown-fields: true
          properties: {type: {type: string}}
`

// describe gives a type its fields.
func (t *Type) describe(fields *apiextensionsv1.JSONSchemaProps) error {
	var properties apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(fields, &properties, nil)
	if err != nil {
		return err
	}
	structural, err := structuralschema.NewStructural(&properties)
	if err != nil {
		return err
	}
	c := &custom{structural: structural, openapi: structural.ToKubeOpenAPI()}
	c.validator = validate.NewSchemaValidator(structural.Unfold().ToKubeOpenAPI(), nil, "", strfmt.Default)
	c.openapi.AddExtension("x-kubernetes-group-version-kind", []any{gvkOf(t.gvk())})
	maps.Copy(c.openapi.Properties, map[string]spec.Schema{"metadata": metadata,
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty()})
	c.shapes, err = managedfields.NewTypeConverter(map[string]*spec.Schema{t.Kind: c.openapi}, false)
	t.custom = c
	return err
}

func gvkOf(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

// metadata says how the metadata of every type is merged.
var metadata = func() (s spec.Schema) {
	if err := json.Unmarshal([]byte(`{"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		"description": "Standard object's metadata.",
		"properties": {
			"finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
			"ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
				"items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
					"properties": {"uid": {"type": "string"}}}}}}`), &s); err != nil {
		panic(err) // the text above is ours
	}
	return s
}()

// fill removes what the schema does not know, fills in its defaults, and returns the paths of what was unknown.
func (c *custom) fill(content map[string]any) (unknown []string) {
	unknown = pruning.PruneWithOptions(content, c.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	setDefaults(content, c.structural)
	return unknown
}

// setDefaults gives each field that is absent, or null where it may not be, the default of its schema, if that has one.
// A null that may not be is removed.
func setDefaults(value any, s *structuralschema.Structural) {
	if s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		of := maps.Clone(s.Properties)
		for name := range value {
			if _, known := of[name]; !known && s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
				if of == nil {
					of = map[string]structuralschema.Structural{}
				}
				of[name] = *s.AdditionalProperties.Structural
			}
		}
		for name, s := range of {
			if had, found := value[name]; !found || had == nil && !s.Nullable {
				delete(value, name)
				if s.Default.Object != nil {
					value[name] = runtime.DeepCopyJSONValue(s.Default.Object)
				}
			}
			setDefaults(value[name], &s)
		}
	case []any:
		for i := range value {
			setDefaults(value[i], s.Items)
		}
	}
}

// check returns what the schema forbids.
func (c *custom) check(content map[string]any) (errs field.ErrorList) {
	if c == nil {
		return nil
	}
	for _, err := range c.validator.Validate(content).Errors {
		var path *field.Path
		wrong, ok := err.(*openapierrors.Validation)
		if !ok {
			errs = append(errs, field.Invalid(path, "", err.Error()))
			continue
		}
		if wrong.Name != "" && wrong.Name != "." {
			path = field.NewPath(wrong.Name)
		}
		switch wrong.Code() {
		case openapierrors.RequiredFailCode:
			errs = append(errs, field.Required(path, ""))
		case openapierrors.EnumFailCode:
			var allowed []string
			for _, value := range wrong.Values {
				allowed = append(allowed, fmt.Sprint(value))
			}
			errs = append(errs, field.NotSupported(path, wrong.Value, allowed))
		case openapierrors.TooLongFailCode:
			most, _ := wrong.Valid.(int64)
			errs = append(errs, field.TooLong(path, "", int(most)))
		case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
			are, _ := wrong.Value.(int64)
			most, _ := wrong.Valid.(int64)
			errs = append(errs, field.TooMany(path, int(are), int(most)))
		default:
			errs = append(errs, field.Invalid(path, wrong.Value, wrong.Error()))
		}
	}
	return append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, content)...)
}
