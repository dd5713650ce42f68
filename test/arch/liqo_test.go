package arch

import (
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
)

const (
	liqosTypes = "github.com/liqotech/liqo/apis/"
	liqosList  = "../../internal/liqo/fields.txt"
)

var update = flag.Bool("update", false, "write internal/liqo/fields.txt")

// The agent compares the CRDs of a newer Liqo with this list. It has each field of Liqo's kinds that our code names.
func TestLiqosFieldsAreThoseUsed(t *testing.T) {
	want := strings.Join(fieldsUsed(t, "./internal/liqo/..."), "\n") + "\n"
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
