package arch

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	loader "golang.org/x/tools/go/packages"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/liqo/liqotest"
)

const (
	liqosTypes = "github.com/liqotech/liqo/apis/"
	liqosList  = "../../internal/liqo/fields.txt"
)

var update = flag.Bool("update", false, "write internal/liqo/fields.txt")

// The agent compares the CRDs of a newer Liqo with this list. It has each field of Liqo's kinds that our code names, and
// each kind that our policies guard: a policy does not see a kind that is served in another version alone.
func TestLiqosFieldsAreThoseUsed(t *testing.T) {
	fields := fieldsUsed(t, "./internal/liqo/...")
	for _, kind := range kindsGuarded(t) {
		if !slices.ContainsFunc(fields, func(f string) bool { return f == kind || strings.HasPrefix(f, kind+" ") }) {
			fields = append(fields, kind)
		}
	}
	slices.Sort(fields)
	want := strings.Join(fields, "\n") + "\n"
	if *update {
		if err := os.WriteFile(liqosList, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(liqosList)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("internal/liqo/fields.txt is stale: go test ./test/arch -run TestLiqosFields -update\n%s", want)
	}
}

// kindsGuarded returns the kinds of Liqo that the rules of our policies name: apiVersion, kind.
func kindsGuarded(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../config/liqo/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal(document, &policy); err != nil {
			t.Fatal(err)
		}
		if policy.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			for _, group := range rule.APIGroups {
				if !strings.HasSuffix(group, ".liqo.io") {
					continue
				}
				for _, resource := range rule.Resources {
					resource, _, _ = strings.Cut(resource, "/")
					for _, version := range rule.APIVersions {
						all = append(all, group+"/"+version+" "+kindNamed(t, group, resource))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// kindNamed returns the kind of a resource of Liqo's.
func kindNamed(t *testing.T, group, resource string) string {
	t.Helper()
	text, err := os.ReadFile(liqotest.CRDs(t, group+"_"+resource+".yaml")[0])
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct{ Names struct{ Kind string } }
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || crd.Spec.Names.Kind == "" {
		t.Fatalf("%s: %v", resource, err)
	}
	return crd.Spec.Names.Kind
}

// fieldsUsed returns the fields of Liqo's kinds that packages name, one a line: apiVersion, kind, path. A kind of
// which they name no field has a line without a path.
func fieldsUsed(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	loaded, err := loader.Load(&loader.Config{Dir: "../..", Mode: loader.NeedName | loader.NeedFiles |
		loader.NeedImports | loader.NeedTypes | loader.NeedTypesInfo | loader.NeedSyntax | loader.NeedExportFile}, patterns...)
	if err != nil || len(loaded) == 0 {
		t.Fatal(len(loaded), err)
	}
	kinds, named := map[*types.Named]bool{}, map[*types.Var]bool{}
	for _, p := range loaded {
		for _, wrong := range p.Errors {
			t.Fatal(wrong)
		}
		for _, used := range p.TypesInfo.Uses {
			switch used := used.(type) {
			case *types.TypeName:
				if kind := kindOf(used.Type()); kind != nil {
					kinds[kind] = true
				}
			case *types.Var: // also a key of a composite literal
				named[used] = true
			}
		}
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if literal, is := n.(*ast.CompositeLit); is && len(literal.Elts) > 0 {
					if _, keyed := literal.Elts[0].(*ast.KeyValueExpr); !keyed {
						nameAll(p.TypesInfo.TypeOf(literal), named)
					}
				}
				return true
			})
		}
	}
	for kind := range kinds {
		group, version, _ := strings.Cut(strings.TrimPrefix(kind.Obj().Pkg().Path(), liqosTypes), "/")
		kindLine := fmt.Sprintf("%s.liqo.io/%s %s", group, version, kind.Obj().Name())
		below := paths(kind, "", named)
		if len(below) == 0 {
			all = append(all, kindLine)
		}
		for _, path := range below {
			all = append(all, kindLine+" "+path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nameAll names each field of a struct: a composite literal without keys sets all of them.
func nameAll(of types.Type, named map[*types.Var]bool) {
	if s, is := of.Underlying().(*types.Struct); is {
		for f := range s.Fields() {
			named[f] = true
		}
	}
}

// kindOf returns the kind that a type is, or that its list is of; nil if it is neither.
func kindOf(t types.Type) *types.Named {
	n, is := liqosStruct(t)
	if !is {
		return nil
	}
	s := n.Underlying().(*types.Struct)
	for f := range s.Fields() {
		switch f.Name() {
		case "ObjectMeta":
			return n
		case "Items":
			return kindOf(f.Type().(*types.Slice).Elem())
		}
	}
	return nil
}

// liqosStruct returns the struct of Liqo's that a type is, points to, or holds as a list or map.
func liqosStruct(t types.Type) (*types.Named, bool) {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return liqosStruct(t.Elem())
	case *types.Slice:
		return liqosStruct(t.Elem())
	case *types.Map:
		return liqosStruct(t.Elem())
	case *types.Named:
		_, is := t.Underlying().(*types.Struct)
		return t, is && t.Obj().Pkg() != nil && strings.HasPrefix(t.Obj().Pkg().Path(), liqosTypes)
	}
	return nil, false
}

// paths returns the named fields below a struct in JSON: the deepest of each branch.
func paths(of *types.Named, at string, named map[*types.Var]bool) (all []string) {
	s := of.Underlying().(*types.Struct)
	for i := range s.NumFields() {
		f := s.Field(i)
		name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		below, isLiqos := liqosStruct(f.Type())
		if name == "" && isLiqos { // embedded
			all = append(all, paths(below, at, named)...)
		}
		if name == "" || name == "metadata" || !named[f] {
			continue
		}
		path := strings.TrimPrefix(at+"."+name, ".")
		var deeper []string
		if isLiqos {
			deeper = paths(below, path, named)
		}
		if len(deeper) == 0 {
			deeper = []string{path}
		}
		all = append(all, deeper...)
	}
	return all
}
