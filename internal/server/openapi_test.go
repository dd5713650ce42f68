package server_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml")

// The committed descriptions of the broker's API and of the agent's are those of the code.
func TestOpenAPI(t *testing.T) {
	checkDescription(t, "../../docs/openapi.yaml", servertest.Start(t, servertest.Options{}).Server)
	checkDescription(t, "../../docs/openapi-agent.yaml", server.Local(nil, nil, 1, slog.New(slog.DiscardHandler)))
}

func checkDescription(t *testing.T, file string, s *server.Server) {
	t.Helper()
	addComments(s.Description().Components.Schemas.Map(), comments(t, "../../api"))
	described, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, described, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(committed, described) {
		t.Errorf("%s is stale (%v): run go test ./internal/server -run TestOpenAPI -update", file, err)
	}
}

// The committed descriptions are YAML without a key twice, and OpenAPI 3.1 in which nothing is missing: each
// reference, each parameter of a path, each required field, and each operation has one ID of its own.
func TestOpenAPIIsWhole(t *testing.T) {
	for _, file := range []string{"../../docs/openapi.yaml", "../../docs/openapi-agent.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.UnmarshalStrict(text, &doc); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if version, _ := doc["openapi"].(string); !strings.HasPrefix(version, "3.1.") {
			t.Errorf("%s is OpenAPI %q", file, version)
		}
		wrong := checkParts(doc, doc, "")
		ids := map[string]bool{}
		for path, item := range doc["paths"].(map[string]any) {
			for method, o := range item.(map[string]any) {
				wrong = append(wrong, checkOperation(o.(map[string]any), path, method, ids)...)
			}
		}
		for _, what := range wrong {
			t.Errorf("%s: %s", file, what)
		}
	}
}

// checkParts returns the references in a part of a document that lead nowhere, and the required fields that are
// not described.
func checkParts(doc map[string]any, part any, at string) (wrong []string) {
	switch part := part.(type) {
	case []any:
		for i, item := range part {
			wrong = append(wrong, checkParts(doc, item, at+"/"+strconv.Itoa(i))...)
		}
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			to, ok := any(doc), false
			for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				in, _ := to.(map[string]any)
				to, ok = in[name]
			}
			if !ok {
				wrong = append(wrong, at+": there is no "+ref)
			}
		}
		fields, _ := part["properties"].(map[string]any)
		required, _ := part["required"].([]any)
		for _, name := range required {
			if _, ok := fields[name.(string)]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s: there is no required %s", at, name))
			}
		}
		for name, value := range part {
			wrong = append(wrong, checkParts(doc, value, at+"/"+name)...)
		}
	}
	return wrong
}

// checkOperation returns what is wrong with an operation. ids are those of the operations before it.
func checkOperation(o map[string]any, path, method string, ids map[string]bool) (wrong []string) {
	id, _ := o["operationId"].(string)
	if id == "" || ids[id] {
		wrong = append(wrong, fmt.Sprintf("%s %s has the ID %q: none, or that of another operation", method, path, id))
	}
	ids[id] = true
	var named, declared []string
	for _, found := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(path, -1) {
		named = append(named, found[1])
	}
	parameters, _ := o["parameters"].([]any)
	for _, p := range parameters {
		if p := p.(map[string]any); p["in"] == "path" && p["required"] == true && p["schema"] != nil {
			declared = append(declared, p["name"].(string))
		}
	}
	slices.Sort(named)
	slices.Sort(declared)
	if !slices.Equal(named, declared) {
		wrong = append(wrong, fmt.Sprintf("%s %s declares the parameters %q", method, path, declared))
	}
	responses, _ := o["responses"].(map[string]any)
	for status, r := range responses {
		if text, _ := r.(map[string]any)["description"].(string); text == "" {
			wrong = append(wrong, fmt.Sprintf("%s %s does not describe its answer %s", method, path, status))
		}
	}
	if len(responses) == 0 {
		wrong = append(wrong, method+" "+path+" has no answer")
	}
	return wrong
}

// addComments describes types and fields by their comments, for readers of the file. A server does not have
// them: what it serves describes only fields whose schema says more than a comment.
func addComments(schemas map[string]*huma.Schema, of map[string]map[string]string) {
	for kind, schema := range schemas {
		schema.Description = cmp.Or(schema.Description, of[kind][""])
		for name, property := range schema.Properties {
			property.Description = cmp.Or(property.Description, of[kind][name])
		}
	}
}

// comments returns the comments of a package's types, by type and JSON name. That of the type itself
// has an empty name.
func comments(t *testing.T, dir string) map[string]map[string]string {
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no code in", dir, err)
	}
	out, embedded := map[string]map[string]string{}, map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE || len(d.Specs) != 1 {
				return true
			}
			spec := d.Specs[0].(*ast.TypeSpec)
			of := map[string]string{"": oneLine(d.Doc)}
			out[spec.Name.Name] = of
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range structure.Fields.List {
				tag := ""
				if field.Tag != nil {
					unquoted, _ := strconv.Unquote(field.Tag.Value)
					tag, _, _ = strings.Cut(reflect.StructTag(unquoted).Get("json"), ",")
				}
				if part, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 {
					embedded[spec.Name.Name] = append(embedded[spec.Name.Name], part.Name)
				}
				if tag != "" {
					of[tag] = oneLine(field.Doc)
				}
			}
			return false
		})
	}
	for range 3 { // embedded in embedded ones
		for kind, parts := range embedded {
			for _, part := range parts {
				own := maps.Clone(out[kind])
				maps.Copy(out[kind], out[part])
				maps.Copy(out[kind], own)
			}
		}
	}
	return out
}

// oneLine returns a comment without markers of generators.
func oneLine(doc *ast.CommentGroup) string {
	var words []string
	for line := range strings.Lines(doc.Text()) {
		if !strings.HasPrefix(line, "+") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}
