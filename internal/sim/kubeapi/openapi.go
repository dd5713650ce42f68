package kubeapi

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// openAPI answers what kubectl asks before it applies (whether the server checks fields) and explains, and tells
// whether it did. Built-in types have no fields here.
func (a *API) openAPI(w http.ResponseWriter, path string) bool {
	of := strings.TrimPrefix(path, "/openapi/v3/")
	paths, schemas := map[string]any{}, map[string]any{}
	versions := map[string]any{}
	for _, t := range a.tables {
		prefix := "apis/" + t.GroupVersion.String()
		if t.GroupVersion.Group == "" {
			prefix = "api/" + t.GroupVersion.Version
		}
		versions[prefix] = map[string]string{"serverRelativeURL": "/openapi/v3/" + prefix}
		if prefix != of {
			continue
		}
		where := "/" + prefix
		if t.Namespaced {
			where += "/namespaces/{namespace}"
		}
		paths[where+"/"+t.Resource+"/{name}"] = map[string]any{"patch": patchOf(t.gvk())}
		if t.custom != nil {
			schemas[strings.ReplaceAll(t.GroupVersion.String(), "/", ".")+"."+t.Kind] = t.custom.openapi
		}
	}
	if path == "/openapi/v3" {
		reply(w, http.StatusOK, marshal(map[string]any{"paths": versions}))
		return true
	}
	if len(paths) == 0 {
		return false
	}
	reply(w, http.StatusOK, marshal(map[string]any{"openapi": "3.0.0",
		"info": map[string]string{"title": "simulated", "version": "v1"}, "paths": paths,
		"components": map[string]any{"schemas": schemas}}))
	return true
}

// patchOf describes PATCH of a type, and that it checks fields.
func patchOf(k schema.GroupVersionKind) map[string]any {
	parameter := func(name string) map[string]any {
		return map[string]any{"name": name, "in": "query", "schema": map[string]string{"type": "string"}}
	}
	return map[string]any{"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": gvkOf(k),
		"parameters": []any{parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")},
		"responses":  map[string]any{"200": map[string]string{"description": "OK"}}}
}
