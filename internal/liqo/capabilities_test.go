package liqo_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/liqotest"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

type object = map[string]any

// A Liqo is refused by its version, or by the name of a capability that it lacks. Without a known version it is judged
// by its capabilities alone.
func TestJudge(t *testing.T) {
	lacking := func(kinds map[string]object) { delete(properties(kinds["Tenant"], "spec"), "csr") }
	lacksCSR := func(found string) string {
		return found + ` lacks the capability "handshake": the API server does not serve Tenant.spec.csr ` +
			"(authentication.liqo.io/v1beta1), and without it two clusters cannot peer"
	}
	for name, c := range map[string]struct {
		found    liqo.Installation
		change   func(kinds map[string]object)
		untested bool
		refused  string
	}{
		"the tested version":      {found: liqo.Installation{Version: liqo.Tested}},
		"a later patch of it":     {found: liqo.Installation{Version: "v1.2.7"}},
		"an unknown version":      {},
		"an older version":        {found: liqo.Installation{Version: "v1.1.2"}, refused: "Liqo v1.1.2 is older than 1.2, the oldest version that Bourse uses"},
		"a newer one":             {found: liqo.Installation{Version: "v1.3.0"}, untested: true},
		"a release candidate":     {found: liqo.Installation{Version: "v1.3.0-rc.1"}, untested: true},
		"a newer major version":   {found: liqo.Installation{Version: "v2.0.0"}, untested: true},
		"a newer one that lacks":  {found: liqo.Installation{Version: "v1.3.0"}, change: lacking, refused: lacksCSR("Liqo v1.3.0")},
		"the tested one, damaged": {found: liqo.Installation{Version: liqo.Tested}, change: lacking, refused: lacksCSR("Liqo v1.2.0")},
		"an unknown one, damaged": {change: lacking, refused: lacksCSR("Liqo")},
		"a module that is off": {found: liqo.Installation{Version: liqo.Tested, Off: "offloading"}, refused: `Liqo v1.2.0 lacks the capability "modules": ` +
			"the module offloading is disabled, and without it Liqo neither certifies consumers nor makes virtual nodes"},
	} {
		kinds := testedCRDs(t)
		if c.change != nil {
			c.change(kinds)
		}
		served, err := (&liqo.Probe{OpenAPI: serve(t, kinds)}).Served()
		if err != nil {
			t.Fatal(err)
		}
		got := liqo.Judge(c.found, served)
		if got.Untested != c.untested || got.Refused != c.refused {
			t.Errorf("%s: %+v, want %v, %q", name, got, c.untested, c.refused)
		}
	}
}

// Each kind of which Bourse uses a field belongs to one capability, and each capability says what breaks without it.
func TestCapabilities(t *testing.T) {
	var kinds []string
	for _, c := range liqo.Capabilities {
		if c.Name == "" || c.Breaks == "" || len(c.Kinds)+len(c.Modules) == 0 {
			t.Errorf("%+v", c)
		}
		kinds = append(kinds, c.Kinds...)
	}
	slices.Sort(kinds)
	text, err := os.ReadFile("fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for line := range strings.Lines(string(text)) {
		used = append(used, strings.Fields(line)[1])
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(kinds, used) {
		t.Errorf("the capabilities have %q, want %q", kinds, used)
	}
}

// The tests run with the version that go.mod names.
func TestTestedIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.Contains(string(text), "github.com/liqotech/liqo "+liqo.Tested+"\n") {
		t.Errorf("go.mod does not name %s: %v", liqo.Tested, err)
	}
}

// What a cluster does not serve of Liqo's kinds is named.
func TestServed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(kinds map[string]object)
		want   string
	}{
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
		"a field that another one replaces": {func(kinds map[string]object) {
			delete(properties(kinds["VirtualNode"], "spec"), "template")
			properties(kinds["VirtualNode"], "status")["effectiveOffloadingPatch"] = object{"type": "object"}
		}, ""},
		"a field that none replaces": {func(kinds map[string]object) {
			delete(properties(kinds["VirtualNode"], "spec"), "template")
		}, "VirtualNode.spec.template.spec (offloading.liqo.io/v1beta1)"},
		"a kind fewer":            {func(kinds map[string]object) { delete(kinds, "Renew") }, "Renew (authentication.liqo.io/v1beta1)"},
		"a kind that is not used": {func(kinds map[string]object) { delete(kinds, "InternalFabric") }, ""},
		"nothing":                 {func(kinds map[string]object) { clear(kinds) }, "Tenant (authentication.liqo.io/v1beta1)"},
	} {
		kinds := testedCRDs(t)
		c.change(kinds)
		served, err := (&liqo.Probe{OpenAPI: serve(t, kinds)}).Served()
		got := liqo.Judge(liqo.Installation{}, served).Refused
		if err != nil || (c.want == "") != (got == "") || !strings.Contains(got, c.want) || served.Complete() != (c.want == "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// The protocol of the tested version is that of a card without one. Another version of a kind is a line more.
func TestProtocol(t *testing.T) {
	kinds := testedCRDs(t)
	served, err := (&liqo.Probe{OpenAPI: serve(t, kinds)}).Served()
	if err != nil || !slices.Equal(served.Protocol, liqoprotocol.Default) {
		t.Errorf("%q, %v", served.Protocol, err)
	}
	kinds["ResourceSlice v1"] = object{"x-kubernetes-group-version-kind": []any{
		object{"group": "authentication.liqo.io", "version": "v1", "kind": "ResourceSlice"}}}
	more := append(slices.Clone(liqoprotocol.Default), "ResourceSlice authentication.liqo.io/v1")
	slices.Sort(more)
	served, err = (&liqo.Probe{OpenAPI: serve(t, kinds)}).Served()
	if err != nil || !slices.Equal(served.Protocol, more) {
		t.Errorf("%q, %v, want %q", served.Protocol, err, more)
	}
}

// A document is read again once its digest has changed, and not before.
func TestProbeReadsWhatChanged(t *testing.T) {
	kinds := testedCRDs(t)
	client := serve(t, kinds)
	probe := &liqo.Probe{OpenAPI: client}
	for range 3 {
		if served, err := probe.Served(); err != nil || !served.Complete() {
			t.Fatal(served, err)
		}
	}
	before := client.reads
	if before != 5 {
		t.Errorf("%d documents were read, want 5", before)
	}
	delete(kinds, "Renew")
	client.paths = serve(t, kinds).paths
	if served, err := probe.Served(); err != nil || served.Complete() {
		t.Errorf("a kind that has gone is not missed: %v", err)
	}
}

// What cannot be read is nothing that is missing.
func TestServedUnknown(t *testing.T) {
	failed := errors.New("no answer")
	for _, client := range []*schemas{{failed: failed}, {paths: map[string][]byte{"apis/authentication.liqo.io/v1beta1": nil}, failedRead: failed}} {
		if _, err := (&liqo.Probe{OpenAPI: client}).Served(); !errors.Is(err, failed) {
			t.Errorf("%v, want %v", err, failed)
		}
	}
}

// testedCRDs returns the schemas of the tested version's kinds, with their group, version and kind. A caller may change
// its copy.
func testedCRDs(t *testing.T) (kinds map[string]object) {
	t.Helper()
	readOnce.Do(func() {
		text, err := json.Marshal(readCRDs(t))
		if err != nil {
			t.Fatal(err)
		}
		crds = text
	})
	if err := json.Unmarshal(crds, &kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}

var (
	readOnce sync.Once
	crds     []byte
)

func readCRDs(t *testing.T) map[string]object {
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

// schemas is an API server's OpenAPI.
type schemas struct {
	paths              map[string][]byte
	reads              int
	failed, failedRead error
}

// Paths implements [openapi.Client].
func (s *schemas) Paths() (map[string]openapi.GroupVersion, error) {
	paths := map[string]openapi.GroupVersion{}
	for path, text := range s.paths {
		paths[path] = document{s, path, text}
	}
	return paths, s.failed
}

type document struct {
	of   *schemas
	path string
	text []byte
}

func (d document) Schema(string) ([]byte, error) {
	d.of.reads++
	return d.text, d.of.failedRead
}

func (d document) ServerRelativeURL() string {
	return fmt.Sprintf("%s?hash=%x", d.path, sha256.Sum256(d.text))
}

// serve returns an API server's OpenAPI with kinds.
func serve(t *testing.T, kinds map[string]object) *schemas {
	t.Helper()
	byVersion := map[string]object{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		id := kinds[name]["x-kubernetes-group-version-kind"].([]any)[0].(object)
		path := "apis/" + id["group"].(string) + "/" + id["version"].(string)
		if byVersion[path] == nil {
			byVersion[path] = object{}
		}
		byVersion[path][name] = kinds[name]
	}
	client := &schemas{paths: map[string][]byte{}}
	for path, schemas := range byVersion {
		text, err := json.Marshal(object{"components": object{"schemas": schemas}})
		if err != nil {
			t.Fatal(err)
		}
		client.paths[path] = text
	}
	return client
}
