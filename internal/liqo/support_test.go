package liqo_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/liqotest"
)

type object = map[string]any

// The tested version and one that is unknown are used without a look at the CRDs; an older one is refused.
func TestCheckSupport(t *testing.T) {
	failed := errors.New("the API server does not answer")
	none := func() (string, error) { return "", nil }
	for name, c := range map[string]struct {
		found   string
		missing func() (string, error)
		want    liqo.Support
		err     error
	}{
		"the tested version":       {found: "v1.2.0"},
		"a later patch of it":      {found: "v1.2.7"},
		"an unknown version":       {found: ""},
		"an older version":         {found: "v1.1.2", want: liqo.Support{Refused: "Liqo v1.1.2 is older than 1.2, the tested version"}},
		"a newer one":              {found: "v1.3.0", missing: none, want: liqo.Support{Untested: true}},
		"a release candidate":      {found: "v1.3.0-rc.1", missing: none, want: liqo.Support{Untested: true}},
		"a newer major version":    {found: "v2.0.0", missing: none, want: liqo.Support{Untested: true}},
		"a newer one, unreachable": {found: "v1.3.0", missing: func() (string, error) { return "", failed }, err: failed},
		"a newer one that lacks a field": {"v1.3.0", func() (string, error) { return "Tenant.spec.csr", nil }, liqo.Support{
			Refused: "the CRDs of Liqo v1.3.0 lack Tenant.spec.csr, which Bourse uses; the tested version is 1.2"}, nil},
	} {
		if got, err := liqo.CheckSupport(c.found, c.missing); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}

// Liqo's CRDs have each field that Bourse uses. A field or kind that they lack is named.
func TestMissingField(t *testing.T) {
	for name, c := range map[string]struct {
		change func(kinds map[string]object)
		want   string
	}{
		"the tested version": {func(map[string]object) {}, ""},
		"a new field": {func(kinds map[string]object) {
			properties(kinds["Tenant"], "spec")["new"] = object{"type": "string"}
		}, ""},
		"a field fewer": {func(kinds map[string]object) {
			delete(properties(kinds["ResourceSlice"], "spec"), "csr")
		}, "ResourceSlice.spec.csr (authentication.liqo.io/v1beta1)"},
		"a field of a list's items fewer": {func(kinds map[string]object) {
			delete(properties(kinds["ResourceSlice"], "status", "storageClasses"), "storageClassName")
		}, "ResourceSlice.status.storageClasses.storageClassName (authentication.liqo.io/v1beta1)"},
		"an object that became a text": {func(kinds map[string]object) {
			properties(kinds["GatewayServer"], "spec")["endpoint"] = object{"type": "string"}
		}, "GatewayServer.spec.endpoint.port (networking.liqo.io/v1beta1)"},
		"an object with any fields": {func(kinds map[string]object) {
			properties(kinds["GatewayServer"], "spec")["endpoint"] = object{"x-kubernetes-preserve-unknown-fields": true}
		}, ""},
		"a kind fewer":            {func(kinds map[string]object) { delete(kinds, "Renew") }, "Renew (authentication.liqo.io/v1beta1)"},
		"a kind that is not used": {func(kinds map[string]object) { delete(kinds, "InternalFabric") }, ""},
		"nothing":                 {func(kinds map[string]object) { clear(kinds) }, "Identity (authentication.liqo.io/v1beta1)"},
	} {
		kinds := testedCRDs(t)
		c.change(kinds)
		if got, err := liqo.MissingField(serve(t, kinds)); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// What cannot be read is no field that is missing.
func TestMissingFieldUnknown(t *testing.T) {
	failed := errors.New("no answer")
	_, err := liqo.MissingField(openapitest.FakeClient{ForcedErr: failed})
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	_, err = liqo.MissingField(openapitest.FakeClient{PathsMap: map[string]openapi.GroupVersion{
		"apis/authentication.liqo.io/v1beta1": openapitest.FakeGroupVersion{ForcedErr: failed}}})
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
}

// testedCRDs returns the schemas of the tested version's kinds, with their group, version and kind.
func testedCRDs(t *testing.T) map[string]object {
	t.Helper()
	kinds := map[string]object{}
	for _, file := range liqotest.CRDs(t, "*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema object }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(file, err)
		}
		for _, v := range crd.Spec.Versions {
			schema := v.Schema.OpenAPIV3Schema
			schema["x-kubernetes-group-version-kind"] = []object{
				{"group": crd.Spec.Group, "version": v.Name, "kind": crd.Spec.Names.Kind}}
			kinds[crd.Spec.Names.Kind] = schema
		}
	}
	return kinds
}

// properties returns the fields of a field of a kind, or of the items of one that is a list.
func properties(schema object, path ...string) object {
	for _, field := range path {
		schema = schema["properties"].(object)[field].(object)
		if items, ok := schema["items"].(object); ok {
			schema = items
		}
	}
	return schema["properties"].(object)
}

// serve returns an API server's OpenAPI with kinds.
func serve(t *testing.T, kinds map[string]object) openapi.Client {
	t.Helper()
	byVersion := map[string]object{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		id := kinds[name]["x-kubernetes-group-version-kind"].([]object)[0]
		path := "apis/" + id["group"].(string) + "/" + id["version"].(string)
		if byVersion[path] == nil {
			byVersion[path] = object{}
		}
		byVersion[path][name] = kinds[name]
	}
	client := openapitest.FakeClient{PathsMap: map[string]openapi.GroupVersion{}}
	for path, schemas := range byVersion {
		text, err := json.Marshal(object{"components": object{"schemas": schemas}})
		if err != nil {
			t.Fatal(err)
		}
		client.PathsMap[path] = openapitest.FakeGroupVersion{GVSpec: text}
	}
	return client
}
