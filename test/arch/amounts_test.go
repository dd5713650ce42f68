package arch

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	loader "golang.org/x/tools/go/packages"
)

// decoders are functions that make numbers of amounts before anybody can check them, with the place of
// the argument that they decode into. -1: its type is not known before the call.
var decoders = map[string]int{
	"encoding/json.Unmarshal":                                                                 1,
	"(*encoding/json.Decoder).Decode":                                                         0,
	"sigs.k8s.io/json.UnmarshalCaseSensitivePreserveInts":                                     1,
	"sigs.k8s.io/json.UnmarshalStrict":                                                        1,
	"github.com/go-json-experiment/json.Unmarshal":                                            1,
	"github.com/go-json-experiment/json.UnmarshalRead":                                        1,
	"github.com/go-json-experiment/json.UnmarshalDecode":                                      1,
	"github.com/go-json-experiment/json/v1.Unmarshal":                                         1,
	"(*github.com/go-json-experiment/json/v1.Decoder).Decode":                                 0,
	"sigs.k8s.io/yaml.Unmarshal":                                                              1,
	"sigs.k8s.io/yaml.UnmarshalStrict":                                                        1,
	"k8s.io/apimachinery/pkg/util/json.Unmarshal":                                             1,
	"k8s.io/apimachinery/pkg/util/yaml.Unmarshal":                                             1,
	"k8s.io/apimachinery/pkg/util/yaml.UnmarshalStrict":                                       1,
	"(*k8s.io/apimachinery/pkg/util/yaml.YAMLToJSONDecoder).Decode":                           0,
	"(*k8s.io/apimachinery/pkg/util/yaml.YAMLOrJSONDecoder).Decode":                           0,
	"(*k8s.io/apimachinery/pkg/runtime.unstructuredConverter).FromUnstructured":               1,
	"(*k8s.io/apimachinery/pkg/runtime.unstructuredConverter).FromUnstructuredWithValidation": 1,
	"(k8s.io/apimachinery/pkg/runtime.Decoder).Decode":                                        -1,
	"k8s.io/apimachinery/pkg/runtime.Decode":                                                  -1,
	"(*k8s.io/apimachinery/pkg/api/resource.Quantity).UnmarshalJSON":                          -1,
	"(*k8s.io/apimachinery/pkg/api/resource.Quantity).Unmarshal":                              -1,
	"(*k8s.io/apimachinery/pkg/api/resource.Quantity).UnmarshalCBOR":                          -1,
	"(k8s.io/apimachinery/pkg/api/resource.QuantityValue).Set":                                -1,
}

// parsers make an amount of text. Constants are ours.
var parsers = []string{"k8s.io/apimachinery/pkg/api/resource.ParseQuantity", "k8s.io/apimachinery/pkg/api/resource.MustParse"}

// decodesWithout are the functions that may use such a decoder, and why.
var decodesWithout = map[string]string{
	"internal/payload.ParseQuantity":             "it checks the text first",
	"internal/payload.Unmarshal":                 "it decodes amounts by ParseQuantity",
	"internal/payload.Read":                      "it decodes amounts by ParseQuantity",
	"internal/liqo/posture.read":                 "these policies are in the binary",
	"internal/sim/kubeapi.table.protobuf":        "only programs write protobuf, and the simulated API server serves ours",
	"internal/sim/kubeapi.request.deleteOptions": "they have no amounts",
}

// One package decodes what has amounts: it checks each before it makes a number of it.
func TestAmountsAreDecodedByPayload(t *testing.T) {
	used := map[string]bool{}
	for _, f := range decodings(t, "./api/...", "./client/...", "./cmd/...", "./config/...", "./internal/...") {
		used[f.in] = true
		if decodesWithout[f.in] == "" {
			t.Errorf("%s: %s %s: use internal/payload", f.at, f.in, f.what)
		}
	}
	for in := range decodesWithout {
		if !used[in] {
			t.Errorf("%s decodes nothing without payload: take it off the list", in)
		}
	}
}

// The test above sees each way in its sample.
func TestAmountsOfTheSampleAreFound(t *testing.T) {
	const sample = "testdata/amounts/amounts.go"
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []int
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// refused") {
			want = append(want, i+1)
		}
	}
	for _, f := range decodings(t, "./test/arch/testdata/amounts") {
		got = append(got, f.line)
	}
	if slices.Sort(got); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("found in lines %v, want %v", got, want)
	}
}

// decoding is a use of a decoder for amounts, in a function of ours.
type decoding struct {
	in, what, at string
	line         int
}

func decodings(t *testing.T, patterns ...string) (all []decoding) {
	t.Helper()
	loaded, err := loader.Load(&loader.Config{Dir: "../..", Mode: loader.NeedName | loader.NeedFiles |
		loader.NeedImports | loader.NeedTypes | loader.NeedTypesInfo | loader.NeedSyntax | loader.NeedExportFile}, patterns...)
	if err != nil || len(loaded) == 0 {
		t.Fatal(len(loaded), err)
	}
	for _, p := range loaded {
		for _, wrong := range p.Errors {
			t.Fatal(wrong)
		}
		if forTests(p.PkgPath) {
			continue
		}
		for _, file := range p.Syntax {
			if ast.IsGenerated(file) {
				continue
			}
			for _, d := range file.Decls {
				for node, what := range misused(p.TypesInfo, d) {
					at := p.Fset.Position(node.Pos())
					all = append(all, decoding{in: strings.TrimPrefix(p.PkgPath, module) + "." + declared(d), what: what,
						at: at.String(), line: at.Line})
				}
			}
		}
	}
	return all
}

// declared names a declaration: a function, or Type.Method.
func declared(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "declarations"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return fmt.Sprint(of) + "." + f.Name.Name
}

// misused returns the uses of decoders and parsers in a declaration that could decode an amount.
func misused(info *types.Info, d ast.Decl) map[ast.Node]string {
	out, fine := map[ast.Node]string{}, map[*ast.Ident]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := called(n)
			if name == nil {
				return true
			}
			of, _ := info.Uses[name].(*types.Func)
			if of == nil {
				return true
			}
			if at, is := decoders[of.FullName()]; is && at >= 0 && at < len(n.Args) {
				fine[name] = !mayHoldAmount(info.TypeOf(n.Args[at]), map[types.Type]bool{})
			}
			if slices.Contains(parsers, of.FullName()) {
				fine[name] = info.Types[n.Args[0]].Value != nil
			}
		case *ast.Ident:
			of, _ := info.Uses[n].(*types.Func)
			if of == nil || fine[n] {
				return true
			}
			if _, is := decoders[of.FullName()]; is || slices.Contains(parsers, of.FullName()) {
				out[n] = "uses " + of.FullName()
			}
		}
		return true
	})
	return out
}

// called is the name in a call, nil if it has none.
func called(call *ast.CallExpr) *ast.Ident {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f
	case *ast.SelectorExpr:
		return f.Sel
	}
	return nil
}

// mayHoldAmount reports whether decoding into a value of a type may make a Quantity: the type has one, or
// is not known. An interface in a field becomes a map, a list or plain text.
func mayHoldAmount(t types.Type, seen map[types.Type]bool) bool {
	if p, ok := t.(*types.Pointer); ok && len(seen) == 0 {
		t = p.Elem()
	} else if len(seen) == 0 {
		return true // any, or a type parameter: callers choose it
	}
	return holdsAmount(t, seen)
}

func holdsAmount(t types.Type, seen map[types.Type]bool) bool {
	if t = types.Unalias(t); seen[t] {
		return false
	}
	seen[t] = true
	if named, ok := t.(*types.Named); ok {
		if o := named.Obj(); o.Pkg() != nil && o.Pkg().Path() == "k8s.io/apimachinery/pkg/api/resource" && o.Name() == "Quantity" {
			return true
		}
	}
	switch u := t.(type) {
	case *types.TypeParam:
		return true
	case *types.Pointer:
		return holdsAmount(u.Elem(), seen)
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return holdsAmount(u.Elem(), seen)
	case *types.Slice:
		return holdsAmount(u.Elem(), seen)
	case *types.Array:
		return holdsAmount(u.Elem(), seen)
	case *types.Map:
		return holdsAmount(u.Elem(), seen)
	case *types.Struct:
		for field := range u.Fields() {
			if holdsAmount(field.Type(), seen) {
				return true
			}
		}
	}
	return false
}
