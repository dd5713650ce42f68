package pages

import (
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// fieldLabels are the labels of the forms' fields, by the names that forms and the API have for them.
var fieldLabels = map[string]string{
	"for":                "For how long",
	"duration":           "For how long",
	"where":              "Where",
	"maxPrice":           "At most, in all",
	"strategy":           "Prefer",
	"namespace":          "Namespace",
	"name":               "Name",
	"metadata.name":      "Name",
	"units":              "Units",
	"purchase.units":     "Units",
	"price":              "Price of a unit",
	"join":               "Token",
	"url":                "Address",
	"offload":            "Namespaces whose pods may run there",
	"offload.namespaces": "Namespaces whose pods may run there",
	"ttl":                "Valid for",
	"same":               "I compared it",
}

// fieldLabel returns the label of a field of a form: cpu, resources.cpu and request.resources.cpu are CPU. A field that no
// form shows keeps its name.
func fieldLabel(field string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(field, "spec."), "request.")
	if label := fieldLabels[name]; label != "" {
		return label
	}
	amount, is := strings.CutPrefix(name, "resources.")
	for _, f := range amountFields {
		if amount == f.Field || amount == f.Resource {
			return f.Label
		}
	}
	if is {
		return resourceLabel(amount)
	}
	return field
}

// onForm returns an error as its form shows it: with the label of the field, and without a flag of the command line. The
// page has a field for what the flag says.
func onForm(e *api.Error) *api.Error {
	if e == nil || IsLoading(e) {
		return e
	}
	shown := *e
	shown.Field = fieldLabel(e.Field)
	shown.Remedy = strings.Replace(e.Remedy, " (-n NAMESPACE)", "", 1)
	return &shown
}
